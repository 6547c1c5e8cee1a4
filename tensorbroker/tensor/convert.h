// Runs of elements from one dtype to another, by torch's rules (static_cast's): see ConvertElements.
#ifndef TENSORBROKER_TENSOR_CONVERT_H_
#define TENSORBROKER_TENSOR_CONVERT_H_

#include <complex>
#include <cstddef>
#include <cstdint>

#include "tensorbroker/tensor/dtype.h"

namespace tensorbroker::internal {

// `count` (at most kConvertChunk) elements side by side at `source` to elements side by side at `destination`, which must
// not overlap; any alignment.
// To bool: is not 0. To integers: towards zero, modulo 2^bits (NaN and what no 64-bit integer holds is -2^63 before that).
// To floats: to nearest; float8 and the 16-bit floats from a float, so doubles round twice, as in torch.
// Complex to real: the real part.
void ConvertElements(DType from, const std::byte* source, DType to, std::byte* destination, int64_t count);

inline constexpr int64_t kConvertChunk = 256;

// A double as an integer: towards zero, -2^63 for NaN and out of range, 2^63 to 2^64 as the uint64 of that value.
int64_t TruncateToInteger(double value);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_TENSOR_CONVERT_H_
