#include "tensorbroker/tensor/fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tensorbroker/tensor/scalar.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<T> Filled(const Header& header, const Scalar& value, size_t count) {
  std::vector<T> memory(count, T(7));
  EXPECT_TRUE(FillStrided(header, std::as_writable_bytes(std::span(memory)), value).ok());
  return memory;
}

template <typename T>
Header Line(int64_t count) {
  return *Header::Contiguous({count}, DTypeOf<T>());
}

TEST(Fill, WritesTheViewsOwnElementsOnly) {
  EXPECT_THAT(Filled<float>(Line<float>(3), 2.5, 4), ElementsAre(2.5f, 2.5f, 2.5f, 7.0f));
  EXPECT_THAT(Filled<int32_t>(*views::Slice(Line<int32_t>(5), 0, 0, 5, 2), 0, 5), ElementsAre(0, 7, 0, 7, 0));
  EXPECT_THAT(Filled<int16_t>(*views::Expand(Line<int16_t>(1), {9}), -1, 2), ElementsAre(-1, 7));
  EXPECT_THAT(Filled<uint8_t>(Line<uint8_t>(0), 1, 1), ElementsAre(7));
}

TEST(Fill, WhatTheDTypeCannotHoldIsRefused) {
  std::vector<std::byte> memory(16);
  const auto fill = [&](DType dtype, const Scalar& value) {
    return FillStrided(*Header::Contiguous({}, dtype), memory, value).code();
  };
  EXPECT_EQ(fill(DType::kUInt8, 300), StatusCode::kInvalidArgument);
  EXPECT_EQ(fill(DType::kUInt8, -255), StatusCode::kOk);  // wraps, as in torch
  EXPECT_EQ(fill(DType::kUInt8, -256), StatusCode::kInvalidArgument);
  EXPECT_EQ(fill(DType::kInt8, 128), StatusCode::kInvalidArgument);
  EXPECT_EQ(fill(DType::kInt32, std::numeric_limits<double>::quiet_NaN()), StatusCode::kInvalidArgument);
  EXPECT_EQ(fill(DType::kInt64, 9223372036854775808.0), StatusCode::kInvalidArgument);
  EXPECT_EQ(fill(DType::kUInt64, 18446744073709549568.0), StatusCode::kOk);
  EXPECT_EQ(fill(DType::kFloat32, std::complex<double>(0, 1)), StatusCode::kInvalidArgument);
  EXPECT_EQ(fill(DType::kFloat16, 1e9), StatusCode::kOk);  // infinity
}

TEST(Fill, ArangeCountsAsTorchDoes) {
  EXPECT_EQ(*ArangeLength(0, 10, 3), 4);
  EXPECT_EQ(*ArangeLength(10, 0, -3), 4);
  EXPECT_EQ(*ArangeLength(1, 1, 1), 0);
  EXPECT_EQ(*ArangeLength(0, 1, 0.1), 10);
  EXPECT_EQ(ArangeLength(0, 10, 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ArangeLength(0, 10, -1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ArangeLength(0, std::numeric_limits<double>::infinity(), 1).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ArangeLength(0, 1e300, 1e-300).status().code(), StatusCode::kInvalidArgument);
}

TEST(Fill, ArangeFillsAnyStridesInRowMajorOrder) {
  std::vector<int32_t> memory(6);
  const auto bytes = std::as_writable_bytes(std::span(memory));
  ASSERT_TRUE(FillArange(*views::T(*Header::Contiguous({2, 3}, DType::kInt32)), bytes, 0, 1).ok());
  EXPECT_THAT(memory, ElementsAre(0, 2, 4, 1, 3, 5));
  std::vector<double> many(1000);
  ASSERT_TRUE(FillArange(Line<double>(1000), std::as_writable_bytes(std::span(many)), 1, 0.5).ok());
  EXPECT_EQ(many[999], 500.5);
  EXPECT_EQ(FillArange(*Header::Contiguous({6}, DType::kUInt8), bytes, 254, 1).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(FillArange(*Header::Contiguous({2}, DType::kComplex64), bytes, 0, 1).code(),
            StatusCode::kInvalidArgument);
}

TEST(Scalar, ReadsAsPythonWritesIt) {
  EXPECT_EQ(ToString(Scalar(true)), "True");
  EXPECT_EQ(ToString(Scalar(-3)), "-3");
  EXPECT_EQ(ToString(Scalar(uint64_t{18446744073709551615u})), "18446744073709551615");
  EXPECT_EQ(ToString(Scalar(1.0)), "1.0");
  EXPECT_EQ(ToString(Scalar(0.1)), "0.1");
  EXPECT_EQ(ToString(Scalar(1e22)), "1e+22");
  EXPECT_EQ(ToString(Scalar(std::complex<double>(1, -2))), "(1-2j)");
  EXPECT_EQ(ToString(Scalar(std::complex<float>(0, 2))), "2j");
}

TEST(Scalar, ItemTakesExactlyOneElement) {
  std::vector<int32_t> memory{1, 2, 3};
  const auto bytes = std::as_bytes(std::span(memory));
  EXPECT_EQ(*Item(*views::Select(Line<int32_t>(3), 0, -1), bytes), Scalar(3));
  const auto many = Item(Line<int32_t>(3), bytes);
  EXPECT_EQ(many.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(many.status())), HasSubstr("3 elements"));
  EXPECT_EQ(Item(*Header::Contiguous({}, DType::kInt32, {DeviceType::kCuda, 0}), bytes).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(*ElementAt(Line<int32_t>(3), bytes, {-2}), Scalar(2));
  EXPECT_EQ(ElementAt(Line<int32_t>(3), bytes, {3}).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(ElementAt(Line<int32_t>(3), bytes, {}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbroker
