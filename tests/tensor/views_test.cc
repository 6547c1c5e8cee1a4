#include "tensorbroker/tensor/views.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "tests/tensor/allocations.h"

namespace tensorbroker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Header Tensor(Dims shape, DType dtype = DType::kFloat32) {
  return *Header::Contiguous(std::move(shape), dtype);
}

void ExpectRefused(const StatusOr<Header>& result, StatusCode code,
                   const ::testing::Matcher<std::string>& message) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code);
  EXPECT_THAT(std::string(Message(result.status())), message);
}

// Case H3.
TEST(Views, SlicesAndTransposesDifferInStridesOnly) {
  const Header base = Tensor({2, 3});
  EXPECT_EQ(base.strides(), (Dims{3, 1}));
  EXPECT_EQ(*views::Slice(base, 0, 0, 1), *Header::Make({.shape = {1, 3}, .strides = {3, 1}}));
  EXPECT_EQ(*views::T(base), *Header::Make({.shape = {3, 2}, .strides = {1, 3}}));
}

// Case H4.
TEST(Views, FlipReadsBackwardsByNegativeStrides) {
  const Header flipped = *views::Flip(Tensor({4}), {0});
  EXPECT_EQ(flipped.strides(), (Dims{-1}));
  EXPECT_EQ(*flipped.storage_offset(), 3);
}

// Case H5.
TEST(Views, ViewOfATransposedTensorNamesContiguousAndReshape) {
  const Header transposed = *views::T(Tensor({2, 3}));
  ExpectRefused(views::View(transposed, {6}), StatusCode::kFailedPrecondition,
                AllOf(HasSubstr("strides (1, 3)"), HasSubstr("contiguous"), HasSubstr("reshape")));
  ExpectRefused(views::Reshape(transposed, {6}), StatusCode::kFailedPrecondition, HasSubstr("contiguous"));
  EXPECT_FALSE(*views::ReshapeIsView(transposed, {6}));
  EXPECT_TRUE(*views::ReshapeIsView(transposed, {3, 1, 2}));
}

// Case H11.
TEST(Views, ViewOfAnotherCountNamesBothCounts) {
  ExpectRefused(views::View(Tensor({2, 3}), {4, 2}), StatusCode::kInvalidArgument,
                AllOf(HasSubstr("(4, 2)"), HasSubstr("8 elements"), HasSubstr("(2, 3) has 6")));
  ExpectRefused(views::View(Tensor({2, 3}), {-1, 4}), StatusCode::kInvalidArgument,
                HasSubstr("a multiple of 4"));
  ExpectRefused(views::View(Tensor({2, 3}), {-1, -1}), StatusCode::kInvalidArgument,
                HasSubstr("more than one -1"));
  ExpectRefused(views::View(Tensor({0}), {-1, 0}), StatusCode::kInvalidArgument, HasSubstr("any number"));
}

// Case H11.
TEST(Views, DetachIsTheSameHeaderWithoutTheFlag) {
  const Header base = *views::WithRequiresGrad(Tensor({2, 3}), true);
  EXPECT_TRUE(views::T(base)->requires_grad());
  EXPECT_EQ(views::Detach(base), Tensor({2, 3}));
  ExpectRefused(views::WithRequiresGrad(Tensor({1}, DType::kInt64), true), StatusCode::kInvalidArgument,
                HasSubstr("int64"));
}

// Case H2.
TEST(Views, AViewOfAViewDoesNotLeaveIt) {
  const Header at_32 = *views::Narrow(Tensor({64}, DType::kUInt8), 0, 32, 32);
  EXPECT_EQ(at_32.offset_bytes(), 32);
  ExpectRefused(views::Narrow(at_32, 0, 40, 1), StatusCode::kOutOfRange, HasSubstr("40"));
}

TEST(Views, ViewsWithoutElementsFitWhereTheirBaseDoes) {
  EXPECT_TRUE(CheckFits(*views::Select(Tensor({0, 100}), 1, 50), 0).ok());
  EXPECT_TRUE(CheckFits(*views::Slice(Tensor({4}), 0, 4, 4), 16).ok());
  EXPECT_TRUE(CheckFits(*views::Flip(Tensor({0, 100}), {1}), 0).ok());
}

TEST(Views, BytesReadAsAnotherDTypeScaleTheLastDimension) {
  const Header base = Tensor({2, 3});
  EXPECT_EQ(*views::ViewDType(base, DType::kUInt8), *Header::Contiguous({2, 12}, DType::kUInt8));
  EXPECT_EQ(*views::ViewDType(Tensor({2, 12}, DType::kUInt8), DType::kFloat32), base);
  ExpectRefused(views::ViewDType(*views::T(base), DType::kUInt8), StatusCode::kFailedPrecondition,
                HasSubstr("stride 1"));
  ExpectRefused(views::ViewDType(Tensor({5}, DType::kUInt8), DType::kFloat32), StatusCode::kInvalidArgument,
                HasSubstr("multiple of 4"));
  ExpectRefused(views::ViewDType(Tensor({}), DType::kUInt8), StatusCode::kInvalidArgument,
                HasSubstr("dimension"));
}

TEST(Views, ComplexAndRealViewsAreInverse) {
  const Header base = *views::T(Tensor({2, 3}, DType::kComplex64));
  const Header real = *views::ViewAsReal(base);
  EXPECT_EQ(real, *Header::Make({.shape = {3, 2, 2}, .strides = {2, 6, 1}}));
  EXPECT_EQ(*views::ViewAsComplex(real), base);
  ExpectRefused(views::ViewAsComplex(Tensor({2, 3})), StatusCode::kInvalidArgument, HasSubstr("size 2"));
  ExpectRefused(views::ViewAsReal(Tensor({2})), StatusCode::kInvalidArgument, HasSubstr("float32"));
}

TEST(Views, AsStridedCountsFromTheStoragesFirstElement) {
  const Header moved = *views::Narrow(Tensor({8}), 0, 4, 4);
  EXPECT_EQ(views::AsStrided(moved, {4}, {-1}, 3)->offset_bytes(), 12);
  ExpectRefused(views::AsStrided(moved, {4}, {-1}, 2), StatusCode::kOutOfRange,
                HasSubstr("before the Storage"));
  ExpectRefused(views::AsStrided(moved, {1}, {1}, std::numeric_limits<int64_t>::max()),
                StatusCode::kOutOfRange, HasSubstr("storage offset"));
  EXPECT_EQ(CheckFits(*views::AsStrided(moved, {3, 3}, {3, 1}, 0), 32).code(), StatusCode::kOutOfRange);
}

TEST(Views, RefusalsNameTheDimensionAndItsSize) {
  const Header base = Tensor({2, 3});
  ExpectRefused(views::Select(base, 0, 2), StatusCode::kOutOfRange, HasSubstr("index 2 is out of bounds"));
  ExpectRefused(views::Narrow(base, 1, 1, 3), StatusCode::kOutOfRange, HasSubstr("start 1 + length 3"));
  ExpectRefused(views::Transpose(base, 0, 2), StatusCode::kOutOfRange, HasSubstr("-2 to 1"));
  ExpectRefused(views::Expand(base, {4, 3}), StatusCode::kInvalidArgument,
                HasSubstr("existing size 2 at dimension 0"));
  ExpectRefused(views::Slice(base, 0, 2, 0, -1), StatusCode::kInvalidArgument, HasSubstr("flip"));
  ExpectRefused(views::T(Tensor({2, 3, 4})), StatusCode::kInvalidArgument, HasSubstr("permute"));
}

TEST(Views, ExtremeArgumentsDoNotOverflow) {
  const Header base = Tensor({2, 3});
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(views::Slice(base, 0, kMin, kMax, kMax)->shape(), (Dims{1, 3}));
  EXPECT_EQ(views::Diagonal(base, kMin)->shape(), (Dims{0}));
  EXPECT_EQ(views::Diagonal(base, kMax)->shape(), (Dims{0}));
  EXPECT_FALSE(views::Narrow(base, 0, 1, kMax).ok());
  EXPECT_FALSE(views::Narrow(base, 0, kMin, 1).ok());
  EXPECT_FALSE(views::Select(base, kMin, kMin).ok());
  EXPECT_FALSE(views::Expand(Tensor({1}), {kMax, kMax, 1}).ok());
  EXPECT_FALSE(views::View(base, {kMax, kMax}).ok());
  EXPECT_FALSE(views::Unfold(base, 0, kMax, kMax).ok());
  const Header odd = *Header::Make({.shape = {1}, .strides = {kMin}});
  EXPECT_EQ(views::Flip(odd, {0})->numel(), 1);
  EXPECT_EQ(views::Unsqueeze(odd, 0)->numel(), 1);
  EXPECT_EQ(views::View(odd, {1, 1})->numel(), 1);
}

TEST(Views, UpToRankSixNothingIsAllocated) {
  const Header base = Tensor({2, 3, 4, 5, 6});
  const Header line = Tensor({720});
  const Dims shape{2, 3, 4, 5, 6};
  const Dims order{4, 3, 2, 1, 0};
  const int64_t before = AllocationsSoFar();
  if (before < 0) GTEST_SKIP() << "a sanitizer has the allocator";
  bool ok = views::Narrow(base, 1, 1, 2).ok();
  ok &= views::Select(base, 0, 1).ok();
  ok &= views::Transpose(base, 0, 4).ok();
  ok &= views::Permute(base, order).ok();
  ok &= views::Unsqueeze(base, 2).ok();
  ok &= views::View(line, shape).ok();
  ok &= views::Slice(base, 2, 0, 4, 2).ok();
  ok &= views::Flip(base, order).ok();
  const int64_t after = AllocationsSoFar();
  EXPECT_TRUE(ok);
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace tensorbroker
