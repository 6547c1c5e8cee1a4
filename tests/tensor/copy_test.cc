#include "tensorbroker/tensor/copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "tensorbroker/tensor/convert.h"
#include "tensorbroker/tensor/overlap.h"
#include "tensorbroker/tensor/views.h"
#include "tests/tensor/naive.h"
#include "tests/tensor/programs.h"
#include "tests/tensor/random_views.h"

namespace tensorbroker {
namespace {

using naive::Random;
using ::testing::AllOf;
using ::testing::HasSubstr;

using Bytes = std::vector<std::byte>;

Bytes RandomBytes(Random& random, int64_t count) {
  Bytes bytes(static_cast<size_t>(count));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Between(0, 255));
  return bytes;
}

// A header of `shape` over memory of another order, with gaps and negative strides, and the bytes it needs.
std::pair<Header, int64_t> Scattered(Random& random, Dims shape, DType dtype) {
  std::vector<size_t> order(shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  for (size_t i = order.size(); i > 1; --i) {
    if (random.OneIn(2))
      std::swap(order[i - 1], order[static_cast<size_t>(random.Between(0, static_cast<int64_t>(i) - 1))]);
  }
  Dims strides(shape.size(), 0);
  int64_t stride = random.OneIn(4) ? 2 : 1;
  int64_t start = random.Between(0, 3);
  for (const size_t dim : order) {
    const bool backwards = random.OneIn(4);
    strides[dim] = backwards ? -stride : stride;
    const int64_t reach = std::max<int64_t>(shape[dim] - 1, 0) * stride;
    if (backwards) start += reach;
    stride = reach + stride + (random.OneIn(3) ? random.Between(0, 3) : 0);
  }
  HeaderFields fields{.shape = std::move(shape),
                      .strides = std::move(strides),
                      .offset_bytes = start * ItemSize(dtype),
                      .dtype = dtype};
  const Header header = *Header::Make(std::move(fields));
  return {header, ByteExtent(header).end + random.Between(0, 8)};
}

void NaiveCopy(const Header& destination, Bytes& to, const Header& source, const Bytes& from) {
  const naive::Tensor at = naive::FromHeader(destination);
  const naive::Tensor values = naive::FromHeader(*views::Expand(source, destination.shape()));
  for (size_t i = 0; i < at.address.size(); ++i) {
    if (source.dtype() == destination.dtype()) {
      std::memcpy(&to[static_cast<size_t>(at.address[i])], &from[static_cast<size_t>(values.address[i])],
                  static_cast<size_t>(source.itemsize()));
    } else {
      internal::ConvertElements(source.dtype(), &from[static_cast<size_t>(values.address[i])],
                                destination.dtype(), &to[static_cast<size_t>(at.address[i])], 1);
    }
  }
}

std::string RunCopyProgram(uint64_t seed) {
  Random random(seed);
  Dims shape = random.Shape();
  if (random.OneIn(8)) shape = {random.Between(1, 70), random.Between(1, 70)};
  if (random.OneIn(50)) shape = {random.Between(1, 700)};
  Dims source_shape = shape;
  for (int64_t& size : source_shape) {
    if (random.OneIn(6)) size = 1;
  }
  if (!source_shape.empty() && random.OneIn(6)) source_shape.erase(source_shape.begin());
  const DType dtype = random.AnyDType();
  const auto [destination, to_bytes] = Scattered(random, shape, dtype);
  const auto [source, from_bytes] =
      Scattered(random, source_shape, random.OneIn(3) ? random.AnyDType() : dtype);
  Bytes to = RandomBytes(random, to_bytes);
  const Bytes from = RandomBytes(random, from_bytes);
  Bytes expected = to;
  NaiveCopy(destination, expected, source, from);
  const Status status = CopyStrided(destination, to, source, from);
  const std::string program = ToString(source) + " to " + ToString(destination);
  if (!status.ok()) return program + ": " + std::string(Message(status));
  return to == expected ? std::string() : program + ": wrong bytes";
}

TEST(Copy, RandomPairsAgreeWithAnIndexLoop) {
  const uint64_t seed = RandomSeed();
  for (uint64_t i = 0; i < kPrograms; ++i) {
    const std::string wrong = RunCopyProgram(seed + i);
    ASSERT_EQ(wrong, "") << "program of seed " << seed + i;
  }
}

template <typename T>
std::span<std::byte> AsBytes(std::vector<T>& values) {
  return std::as_writable_bytes(std::span(values));
}

// One value from one dtype to another.
template <typename To, typename From>
To Convert(From value) {
  To result;
  EXPECT_TRUE(CopyStrided(*Header::Contiguous({}, DTypeOf<To>()),
                          std::as_writable_bytes(std::span(&result, 1)),
                          *Header::Contiguous({}, DTypeOf<From>()), std::as_bytes(std::span(&value, 1)))
                  .ok());
  return result;
}

TEST(Copy, ValuesConvertAsTorchConvertsThem) {
  EXPECT_EQ((Convert<int32_t>(-1.9f)), -1);
  EXPECT_EQ((Convert<uint8_t>(-1.0f)), 255);
  EXPECT_EQ((Convert<uint8_t>(int64_t{300})), 44);
  EXPECT_EQ((Convert<uint64_t>(18446744073709549568.0)), 18446744073709549568u);
  EXPECT_EQ((Convert<float>(uint64_t{18446744073709551615u})), 18446744073709551616.0f);
  EXPECT_EQ((Convert<float>(int64_t{16777217})), 16777216.0f);
  EXPECT_EQ((Convert<double>(int64_t{9007199254740993})), 9007199254740992.0);
  EXPECT_TRUE((Convert<bool>(0.5)));
  EXPECT_TRUE((Convert<bool>(std::complex<float>(0, 1))));
  EXPECT_EQ((Convert<float>(true)), 1.0f);
  EXPECT_EQ((Convert<float>(std::complex<double>(2, 3))), 2.0f);
  EXPECT_EQ((Convert<std::complex<float>>(int8_t{-3})), std::complex<float>(-3, 0));
  EXPECT_EQ(Convert<Float16>(65520.0f).bits, 0x7C00);
  EXPECT_EQ(Convert<Float16>(65519.0f).bits, 0x7BFF);
  EXPECT_EQ(Convert<BFloat16>(1.00390625f).bits, 0x3F80);  // a tie goes to even
  EXPECT_EQ(Convert<Float8E4M3FN>(464.0f).bits, 0x7E);
  EXPECT_EQ(Convert<Float8E4M3FN>(-1e9f).bits, 0xFE);
  EXPECT_EQ(Convert<Float8E4M3FN>(std::numeric_limits<float>::infinity()).bits, 0x7E);
  EXPECT_EQ(Convert<Float8E4M3FN>(std::numeric_limits<float>::quiet_NaN()).bits, 0x7F);
  EXPECT_EQ(Convert<Float8E5M2>(std::numeric_limits<float>::quiet_NaN()).bits, 0x7F);
  EXPECT_EQ(Convert<Float8E5M2>(61440.0f).bits, 0x7C);
  EXPECT_EQ(Convert<Float8E5M2>(61439.0f).bits, 0x7B);
}

// Narrowing what was widened gives the same bits, for each bit pattern; between two neighbours the nearer one is taken.
template <typename T, typename Bits>
void CheckSmallFloat(int count) {
  for (int i = 0; i < count; ++i) {
    const T value = T::FromBits(static_cast<Bits>(i));
    const float wide = static_cast<float>(value);
    if (wide != wide) continue;
    ASSERT_EQ(T(wide).bits, value.bits);
    const float next = static_cast<float>(T::FromBits(static_cast<Bits>(i + 1)));
    if (!(std::abs(next) < 1e38f) || next == 0 || wide == next || std::signbit(next) != std::signbit(wide))
      continue;
    const double middle = (static_cast<double>(wide) + next) / 2;
    if (static_cast<double>(static_cast<float>(middle)) != middle) continue;
    ASSERT_EQ(T(static_cast<float>(middle)).bits, i % 2 == 0 ? i : i + 1) << wide << " " << next;
    ASSERT_EQ(T(std::nextafter(static_cast<float>(middle), wide)).bits, i);
    ASSERT_EQ(T(std::nextafter(static_cast<float>(middle), next)).bits, i + 1);
  }
}

TEST(SmallFloats, EachPatternSurvivesAndTiesGoToEven) {
  CheckSmallFloat<Float16, uint16_t>(65536);
  CheckSmallFloat<BFloat16, uint16_t>(65536);
  CheckSmallFloat<Float8E4M3FN, uint8_t>(256);
  CheckSmallFloat<Float8E5M2, uint8_t>(256);
}

TEST(Copy, ABoolByteOfAPeerIsTrueWhateverItsBits) {
  const std::byte odd{0x5A};
  float result = 0;
  ASSERT_TRUE(CopyStrided(*Header::Contiguous({}, DType::kFloat32),
                          std::as_writable_bytes(std::span(&result, 1)),
                          *Header::Contiguous({}, DType::kBool), std::span(&odd, 1))
                  .ok());
  EXPECT_EQ(result, 1.0f);
}

TEST(Copy, AnExpandedDestinationIsRefused) {
  std::vector<float> memory(6, 0);
  const Header destination = *views::Expand(*Header::Contiguous({1, 3}, DType::kFloat32), {2, 3});
  const Status status =
      CopyStrided(destination, AsBytes(memory), *Header::Contiguous({3}, DType::kFloat32), AsBytes(memory));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("clone"));
}

// Case H11.
TEST(Copy, DevicesThatDifferAreBothNamed) {
  std::vector<float> memory(6, 0);
  const Status status =
      CopyStrided(*Header::Contiguous({3}, DType::kFloat32), AsBytes(memory),
                  *Header::Contiguous({3}, DType::kFloat32, {DeviceType::kCuda, 1}), AsBytes(memory));
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), AllOf(HasSubstr("cpu"), HasSubstr("cuda:1")));
}

TEST(Copy, ShapesThatCannotBeBroadcastAreNamed) {
  std::vector<float> memory(6, 0);
  const Status status = CopyStrided(*Header::Contiguous({2, 3}, DType::kFloat32), AsBytes(memory),
                                    *Header::Contiguous({2}, DType::kFloat32), AsBytes(memory));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(status)), AllOf(HasSubstr("(2,)"), HasSubstr("(2, 3)")));
}

TEST(Copy, AHeaderOutsideItsSpanIsRefused) {
  std::vector<float> memory(6, 0);
  std::vector<float> small(2, 0);
  const Header header = *Header::Contiguous({6}, DType::kFloat32);
  EXPECT_EQ(CopyStrided(header, AsBytes(small), header, AsBytes(memory)).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(CopyStrided(header, AsBytes(memory), header, AsBytes(small)).code(), StatusCode::kOutOfRange);
}

TEST(Copy, OneStoragesOwnRangesMoveOrAreRefused) {
  std::vector<float> memory(8);
  std::iota(memory.begin(), memory.end(), 0.0f);
  const Header all = *Header::Contiguous({8}, DType::kFloat32);
  const auto copy = [&](StatusOr<Header> to, StatusOr<Header> from) {
    return CopyStrided(*to, AsBytes(memory), *from, AsBytes(memory));
  };
  // Dense ranges move as by memmove.
  ASSERT_TRUE(copy(views::Narrow(all, 0, 1, 7), views::Narrow(all, 0, 0, 7)).ok());
  EXPECT_EQ(memory, (std::vector<float>{0, 0, 1, 2, 3, 4, 5, 6}));
  // Interleaved ones share no byte.
  ASSERT_TRUE(copy(views::Slice(all, 0, 0, 8, 2), views::Slice(all, 0, 1, 8, 2)).ok());
  EXPECT_EQ(memory, (std::vector<float>{0, 0, 2, 2, 4, 4, 6, 6}));
  // Onto itself nothing happens.
  ASSERT_TRUE(copy(all, all).ok());
  // Backwards onto itself would read what it wrote.
  EXPECT_EQ(copy(all, views::Flip(all, {0})).code(), StatusCode::kFailedPrecondition);
  const Header square = *Header::Contiguous({2, 2}, DType::kFloat32);
  EXPECT_EQ(copy(square, views::T(square)).code(), StatusCode::kFailedPrecondition);
  // Another dtype in place, element by element.
  ASSERT_TRUE(copy(views::ViewDType(all, DType::kInt32), all).ok());
  int32_t last = 0;
  std::memcpy(&last, &memory[7], 4);
  EXPECT_EQ(last, 6);
}

// Brute force over all pairs of elements.
bool SharesBytes(const Header& a, const Header& b, int64_t distance, bool distinct_elements) {
  const naive::Tensor in_a = naive::FromHeader(a);
  const naive::Tensor in_b = naive::FromHeader(b);
  for (size_t i = 0; i < in_a.address.size(); ++i) {
    for (size_t j = 0; j < in_b.address.size(); ++j) {
      if (distinct_elements && i == j) continue;
      const int64_t x = in_a.address[i];
      const int64_t y = in_b.address[j] + distance;
      if (x < y + b.itemsize() && y < x + a.itemsize()) return true;
    }
  }
  return false;
}

TEST(Overlap, AgreesWithBruteForce) {
  const uint64_t seed = RandomSeed();
  for (uint64_t i = 0; i < kPrograms / 5; ++i) {
    Random random(seed + i);
    const auto any = [&] {
      HeaderFields fields;
      fields.dtype = random.AnyDType();
      int64_t low = 0;
      for (int64_t rank = random.Between(0, 3); rank > 0; --rank) {
        fields.shape.push_back(random.Between(1, 4));
        fields.strides.push_back(random.Between(-9, 9));
        low += std::min<int64_t>(0, fields.strides.back()) * (fields.shape.back() - 1);
      }
      fields.offset_bytes = (random.Between(0, 20) - low) * ItemSize(fields.dtype);
      return *Header::Make(std::move(fields));
    };
    const Header a = any();
    const Header b = any();
    const int64_t distance = random.Between(-40, 40);
    ASSERT_EQ(SelfOverlap(a), SharesBytes(a, a, 0, true) ? Overlap::kSome : Overlap::kNone) << ToString(a);
    ASSERT_EQ(MutualOverlap(a, b, distance),
              SharesBytes(a, b, distance, false) ? Overlap::kSome : Overlap::kNone)
        << ToString(a) << " and " << ToString(b) << " at " << distance;
  }
}

// Under UBSan a product that overflows ends the test.
TEST(Overlap, ADimensionOfOneElementMayHaveAnyStride) {
  constexpr int64_t kWild = std::numeric_limits<int64_t>::max();
  for (const int64_t wild : {kWild, -kWild}) {
    const auto wide = Header::Make({.shape = {1, 4}, .strides = {wild, 1}});
    const auto same = Header::Make({.shape = {4, 1}, .strides = {1, wild}, .offset_bytes = 8});
    ASSERT_TRUE(wide.ok() && same.ok()) << wide.status() << same.status();
    EXPECT_EQ(SelfOverlap(*wide), Overlap::kNone);
    EXPECT_EQ(MutualOverlap(*wide, *same, 0), Overlap::kSome);
    EXPECT_EQ(MutualOverlap(*wide, *same, 8), Overlap::kNone);
    Bytes bytes(24);
    EXPECT_TRUE(CopyStrided(*wide, bytes, *wide, bytes).ok());
  }
}

}  // namespace
}  // namespace tensorbroker
