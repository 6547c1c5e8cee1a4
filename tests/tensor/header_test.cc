#include "tensorbroker/tensor/header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tensorbroker/tensor/views.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kStorage = 64;

Status Fits(Dims shape, DType dtype, int64_t offset_bytes) {
  auto header = Header::Contiguous(std::move(shape), dtype, {}, offset_bytes);
  return header.ok() ? CheckFits(*header, kStorage) : header.status();
}

Status FitsStrided(Dims shape, Dims strides, DType dtype, int64_t offset_bytes) {
  auto header = Header::Make({.shape = std::move(shape),
                              .strides = std::move(strides),
                              .offset_bytes = offset_bytes,
                              .dtype = dtype});
  return header.ok() ? CheckFits(*header, kStorage) : header.status();
}

// Case H1.
TEST(Header, OffsetMustBeAMultipleOfTheAlignment) {
  const Status misaligned = Fits({1}, DType::kFloat32, 2);
  EXPECT_EQ(misaligned.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Message(misaligned)), HasSubstr("offset of 2 bytes"));
  EXPECT_THAT(std::string(Message(misaligned)), HasSubstr("alignment of 4 bytes"));
  EXPECT_TRUE(Fits({1}, DType::kFloat32, 4).ok());
  EXPECT_TRUE(Fits({1}, DType::kComplex128, 8).ok());
  EXPECT_EQ(Fits({1}, DType::kComplex128, 6).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Fits({1}, DType::kUInt8, 1).ok());
}

// Case H1.
TEST(Header, StorageOffsetIsRefusedWhereItWouldNotBeWhole) {
  const auto header = Header::Contiguous({1}, DType::kComplex128, {}, 8);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->storage_offset().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(*Header::Contiguous({1}, DType::kComplex128, {}, 32)->storage_offset(), 2);
}

// Case H2.
TEST(Header, WhatReachesOutsideItsStorageIsOutOfRange) {
  EXPECT_TRUE(Fits({1}, DType::kInt64, 56).ok());
  EXPECT_EQ(Fits({1}, DType::kInt64, 64).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Fits({1}, DType::kFloat32, std::numeric_limits<int64_t>::max() - 9999).code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(Fits({int64_t{1} << 32, int64_t{1} << 32}, DType::kFloat32, 0).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(FitsStrided({int64_t{1} << 62}, {4}, DType::kFloat32, 0).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(FitsStrided({int64_t{1} << 60}, {4}, DType::kFloat32, 0).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(FitsStrided({2}, {std::numeric_limits<int64_t>::min()}, DType::kUInt8, 0).code(),
            StatusCode::kOutOfRange);
  EXPECT_EQ(FitsStrided({5, 2}, {10, 1}, DType::kFloat32, 0).code(), StatusCode::kOutOfRange);
  EXPECT_EQ(Fits({1}, DType::kFloat32, -4).code(), StatusCode::kOutOfRange);
}

// Case H2.
TEST(Header, MalformedPartsAreInvalid) {
  EXPECT_EQ(Fits({-1}, DType::kFloat32, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(FitsStrided({2, 3}, {1}, DType::kFloat32, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Fits(Dims(65, 1), DType::kFloat32, 0).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Header::Make({.dtype = DType::kInt64, .requires_grad = true}).status().code(),
            StatusCode::kInvalidArgument);
}

// Case H4.
TEST(Header, NegativeStridesFitWhereTheirLowestElementDoes) {
  EXPECT_TRUE(FitsStrided({4}, {-1}, DType::kFloat32, 12).ok());
  EXPECT_EQ(FitsStrided({4}, {-1}, DType::kFloat32, 8).code(), StatusCode::kOutOfRange);
}

// Case C4.
TEST(Header, OneByteTooManyIsOutOfRange) {
  const auto header = Header::Contiguous({9}, DType::kUInt8);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(CheckFits(*header, 8).code(), StatusCode::kOutOfRange);
  EXPECT_TRUE(CheckFits(*header, 9).ok());
}

// Case C5.
TEST(Header, ShapesWithoutElementsFitAnywhere) {
  for (const Dims& shape : {Dims{0, 100}, Dims{1, 0}, Dims{0}}) {
    const auto header = Header::Contiguous(shape, DType::kFloat32);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->shape(), shape);
    EXPECT_EQ(header->numel(), 0);
    EXPECT_EQ(header->nbytes(), 0);
    EXPECT_TRUE(header->is_contiguous());
    EXPECT_TRUE(CheckFits(*header, 0).ok());
  }
  EXPECT_EQ(Header::Contiguous({}, DType::kFloat32)->numel(), 1);
  EXPECT_TRUE(Fits({0}, DType::kFloat32, 64).ok());
  EXPECT_EQ(Fits({0}, DType::kFloat32, 68).code(), StatusCode::kOutOfRange);
}

TEST(Header, ContiguousIsJudgedAsTorchDoes) {
  EXPECT_EQ(Header::Contiguous({2, 3, 4}, DType::kInt8)->strides(), (Dims{12, 4, 1}));
  EXPECT_TRUE(Header::Make({.shape = {1, 3}, .strides = {77, 1}})->is_contiguous());
  EXPECT_FALSE(Header::Make({.shape = {2, 3}, .strides = {1, 2}})->is_contiguous());
}

TEST(DType, NumbersOfNoDTypeAreRefused) {
  const Header header = *Header::Contiguous({2, 4}, DType::kUInt8);
  for (const int number : {kNumDTypes, 99, 255}) {
    const auto dtype = static_cast<DType>(number);
    EXPECT_EQ(Name(dtype), "no dtype");
    HeaderFields fields = header.fields();
    fields.dtype = dtype;
    EXPECT_EQ(Header::Make(fields).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(Header::Contiguous({2}, dtype).status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(views::ViewDType(header, dtype).status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    EXPECT_EQ(*ParseDType(Name(dtype)), dtype);
  }
  EXPECT_EQ(*ParseDType("torch.half"), DType::kFloat16);
  EXPECT_EQ(ParseDType("float31").status().code(), StatusCode::kInvalidArgument);
}

TEST(Device, NamesRoundTrip) {
  EXPECT_EQ(ToString(*ParseDevice("cpu")), "cpu");
  EXPECT_EQ(ToString(*ParseDevice("cuda:3")), "cuda:3");
  for (const char* bad : {"cuda:", "cuda:-1", "cuda:1x", "gpu", "cuda:99999"}) {
    EXPECT_EQ(ParseDevice(bad).status().code(), StatusCode::kInvalidArgument) << bad;
  }
}

}  // namespace
}  // namespace tensorbroker
