// Writes what this library does, one Python literal a line, for torch_check.py to compare with torch:
//   ('views', dtype, shape, offset in elements, [(call, code, shape, strides, offset in bytes), ...])
//   ('format', dtype, shape, bytes in hexadecimal, text)
//   ('convert', from dtype, to dtype, bytes in hexadecimal, converted bytes)
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tensorbroker/tensor/convert.h"
#include "tensorbroker/tensor/format.h"
#include "tensorbroker/tensor/scalar.h"
#include "tests/tensor/naive.h"
#include "tests/tensor/random_views.h"

namespace tensorbroker {
namespace {

using naive::Random;

std::string Hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned>(byte));
  return text;
}

void TraceViews(uint64_t seed) {
  Random random(seed);
  const DType dtype = random.AnyDType();
  const int64_t offset = random.Between(0, 3);
  Header header = *Header::Contiguous(random.Shape(), dtype, {}, offset * ItemSize(dtype));
  fmt::print("('views', '{}', {}, {}, [", Name(dtype), ToString(header.shape()), offset);
  for (int64_t steps = random.Between(1, 6); steps > 0; --steps) {
    naive::Step step = RandomStep(random, header, naive::FromHeader(header));
    if (step.text.starts_with("Flip")) continue;  // torch copies
    fmt::print("('{}', ", step.text);
    if (!step.header.ok()) {
      fmt::print("'{}', None, None, None), ", CodeName(step.header.status().code()));
      continue;
    }
    header = *step.header;
    fmt::print("'OK', {}, {}, {}), ", ToString(header.shape()), ToString(header.strides()),
               header.offset_bytes());
  }
  fmt::print("])\n");
}

// A number as people have them: small whole ones, fractions, wide ranges, and what is not finite.
double Number(Random& random, int64_t style) {
  if (style == 3 && random.OneIn(4)) return random.OneIn(2) ? NAN : (random.OneIn(2) ? INFINITY : -INFINITY);
  const double whole = static_cast<double>(random.Between(-99, 99));
  if (style == 0) return whole;
  const double fraction = whole + static_cast<double>(random.Between(-999, 999)) / 1000;
  return style == 2 ? fraction * std::pow(10.0, static_cast<double>(random.Between(-6, 6))) : fraction;
}

std::vector<std::byte> Numbers(Random& random, DType dtype, int64_t count) {
  const int64_t style = IsFloating(dtype) || IsComplex(dtype) ? random.Between(0, 3) : 0;
  std::vector<std::byte> bytes(static_cast<size_t>(count * ItemSize(dtype)));
  for (int64_t i = 0; i < count; ++i) {
    double value = Number(random, style);
    if (IsInteger(dtype)) value = std::fabs(value);
    std::byte* element = bytes.data() + i * ItemSize(dtype);
    if (!StoreScalar(
             IsComplex(dtype) ? Scalar(std::complex<double>(value, Number(random, style))) : Scalar(value),
             dtype, element)
             .ok()) {
      std::abort();
    }
  }
  return bytes;
}

void TraceFormat(uint64_t seed) {
  Random random(seed);
  Dims shape = random.Shape();
  if (random.OneIn(4)) shape = {random.Between(1, 60), random.Between(1, 60)};
  if (random.OneIn(8)) shape = {random.Between(900, 1100)};
  const Header header = *Header::Contiguous(shape, random.AnyDType());
  const std::vector<std::byte> bytes = Numbers(random, header.dtype(), header.numel());
  std::string text = *Format(header, bytes);
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 2) text.replace(at, 1, "\\n");
  fmt::print("('format', '{}', {}, '{}', \"{}\")\n", Name(header.dtype()), ToString(shape), Hex(bytes), text);
}

void TraceConvert(uint64_t seed) {
  Random random(seed);
  const DType from = random.AnyDType();
  const DType to = random.AnyDType();
  constexpr int64_t kCount = 16;
  std::vector<std::byte> bytes = Numbers(random, from, kCount);
  std::vector<std::byte> converted(static_cast<size_t>(kCount * ItemSize(to)));
  internal::ConvertElements(from, bytes.data(), to, converted.data(), kCount);
  fmt::print("('convert', '{}', '{}', '{}', '{}')\n", Name(from), Name(to), Hex(bytes), Hex(converted));
}

}  // namespace
}  // namespace tensorbroker

int main(int argc, char** argv) {
  const uint64_t programs = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  for (uint64_t i = 0; i < programs; ++i) {
    tensorbroker::TraceViews(i);
    if (i % 4 == 0) tensorbroker::TraceFormat(i);
    if (i % 4 == 1) tensorbroker::TraceConvert(i);
  }
}
