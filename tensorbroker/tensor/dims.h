// Sizes or strides, one number a dimension.
#ifndef TENSORBROKER_TENSOR_DIMS_H_
#define TENSORBROKER_TENSOR_DIMS_H_

#include <cstdint>
#include <string>

#include "absl/container/inlined_vector.h"

namespace tensorbroker {

inline constexpr int kInlineRank = 6;  // up to this rank a header allocates nothing
inline constexpr int kMaxRank = 64;    // torch's and NumPy's own limit

using Dims = absl::InlinedVector<int64_t, kInlineRank>;

// As Python writes a tuple: "(2, 3)", "(4,)", "()".
std::string ToString(const Dims& dims);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_DIMS_H_
