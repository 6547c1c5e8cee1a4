// What torch 2 prints for the same tensors.
#include "tensorbroker/tensor/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <complex>
#include <numeric>
#include <string>
#include <vector>

#include "tensorbroker/tensor/fill.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {
namespace {

template <typename T>
std::string Print(Dims shape, const std::vector<T>& values) {
  return *Format(*Header::Contiguous(std::move(shape), DTypeOf<T>()), std::as_bytes(std::span(values)));
}

std::string PrintArange(Dims shape, DType dtype) {
  const Header header = *Header::Contiguous(std::move(shape), dtype);
  std::vector<std::byte> storage(static_cast<size_t>(header.nbytes()));
  EXPECT_TRUE(FillArange(header, storage, 0, 1).ok());
  return *Format(header, storage);
}

TEST(Format, WholeFloatsHaveAPointAndNoDigits) {
  EXPECT_EQ(Print<float>({2, 2}, {1, 2, 3, 40}), "tensor([[ 1.,  2.],\n        [ 3., 40.]])");
}

TEST(Format, FractionsHaveFourDigits) {
  EXPECT_EQ(Print<float>({3}, {1, 2.5, -3.14159f}), "tensor([ 1.0000,  2.5000, -3.1416])");
}

TEST(Format, WideRangesAreScientific) {
  EXPECT_EQ(Print<float>({2}, {1e-5f, 1}), "tensor([1.0000e-05, 1.0000e+00])");
  EXPECT_EQ(Print<float>({2}, {1, 1e9f}), "tensor([1.0000e+00, 1.0000e+09])");
}

TEST(Format, WhatIsNotFiniteIsPadded) {
  const float inf = INFINITY;
  EXPECT_EQ(Print<float>({3}, {NAN, inf, 1.5}), "tensor([   nan,    inf, 1.5000])");
  EXPECT_EQ(Print<float>({2}, {-inf, 1}), "tensor([-inf, 1.])");
}

TEST(Format, OtherDTypesAreNamed) {
  EXPECT_EQ(Print<int64_t>({3}, {1, -20, 3}), "tensor([  1, -20,   3])");
  EXPECT_EQ(Print<int32_t>({2}, {1, 2}), "tensor([1, 2], dtype=torch.int32)");
  EXPECT_EQ(Print<double>({1}, {0.5}), "tensor([0.5000], dtype=torch.float64)");
  const bool values[] = {true, false};
  EXPECT_EQ(*Format(*Header::Contiguous({2}, DType::kBool), std::as_bytes(std::span(values))),
            "tensor([ True, False])");
  EXPECT_EQ(Print<BFloat16>({2}, {BFloat16(1.5f), BFloat16(2)}),
            "tensor([1.5000, 2.0000], dtype=torch.bfloat16)");
}

TEST(Format, ComplexPartsAreFormattedApart) {
  EXPECT_EQ(Print<std::complex<float>>({2}, {{1, 2}, {3, -4.5}}), "tensor([1.+2.0000j, 3.-4.5000j])");
}

TEST(Format, ScalarsAndEmptyOnes) {
  EXPECT_EQ(Print<float>({}, {3.5}), "tensor(3.5000)");
  EXPECT_EQ(Print<float>({0}, {}), "tensor([])");
  EXPECT_EQ(Print<int64_t>({0, 3}, {}), "tensor([], size=(0, 3), dtype=torch.int64)");
}

TEST(Format, LongOnesAreSummarised) {
  EXPECT_EQ(PrintArange({1001}, DType::kInt64), "tensor([   0,    1,    2,  ...,  998,  999, 1000])");
  EXPECT_EQ(PrintArange({7, 200}, DType::kFloat32),
            "tensor([[0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9700e+02, 1.9800e+02,\n"
            "         1.9900e+02],\n"
            "        [2.0000e+02, 2.0100e+02, 2.0200e+02,  ..., 3.9700e+02, 3.9800e+02,\n"
            "         3.9900e+02],\n"
            "        [4.0000e+02, 4.0100e+02, 4.0200e+02,  ..., 5.9700e+02, 5.9800e+02,\n"
            "         5.9900e+02],\n"
            "        ...,\n"
            "        [8.0000e+02, 8.0100e+02, 8.0200e+02,  ..., 9.9700e+02, 9.9800e+02,\n"
            "         9.9900e+02],\n"
            "        [1.0000e+03, 1.0010e+03, 1.0020e+03,  ..., 1.1970e+03, 1.1980e+03,\n"
            "         1.1990e+03],\n"
            "        [1.2000e+03, 1.2010e+03, 1.2020e+03,  ..., 1.3970e+03, 1.3980e+03,\n"
            "         1.3990e+03]])");
}

TEST(Format, LinesBreakAtEightyColumnsAndMatricesAreApart) {
  EXPECT_EQ(PrintArange({20}, DType::kInt64),
            "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
            "        18, 19])");
  EXPECT_EQ(PrintArange({2, 1, 2}, DType::kInt64), "tensor([[[0, 1]],\n\n        [[2, 3]]])");
}

TEST(Format, ViewsPrintTheirOwnElements) {
  std::vector<float> values{0, 1, 2, 3, 4, 5};
  const Header flipped = *views::Flip(*views::T(*Header::Contiguous({2, 3}, DType::kFloat32)), {0});
  EXPECT_EQ(*Format(flipped, std::as_bytes(std::span(values))),
            "tensor([[2., 5.],\n        [1., 4.],\n        [0., 3.]])");
  const Header learnt = *views::WithRequiresGrad(*Header::Contiguous({1}, DType::kFloat32), true);
  EXPECT_EQ(*Format(learnt, std::as_bytes(std::span(values))), "tensor([0.], requires_grad=True)");
}

}  // namespace
}  // namespace tensorbroker
