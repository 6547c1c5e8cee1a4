// Do two elements share a byte? Decided exactly, from strides alone, in bounded time.
#ifndef TENSORBROKER_TENSOR_OVERLAP_H_
#define TENSORBROKER_TENSOR_OVERLAP_H_

#include <cstdint>

#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// kUnknown: the bounded search gave up. It does so only for strides that no chain of views of a dense tensor makes.
enum class Overlap { kNone, kSome, kUnknown };

// Whether two indices of one tensor name the same element, as in an expanded one. Such a tensor cannot be written.
Overlap SelfOverlap(const Header& header);

// Whether an element of `a` shares a byte with one of `b`, whose Storage begins `distance_bytes` after that of `a`.
Overlap MutualOverlap(const Header& a, const Header& b, int64_t distance_bytes);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_OVERLAP_H_
