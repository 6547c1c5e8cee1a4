// What the view functions share: dimensions counted from the end, and strides that mean nothing.
//
// A stride that belongs to a size of 0 or 1 is never multiplied with an index, so it may be any number, also
// one from a peer; arithmetic on it wraps instead of overflowing. Strides that are used cannot overflow:
// Header's invariant.
#ifndef TENSORBROKER_TENSOR_WRAP_H_
#define TENSORBROKER_TENSOR_WRAP_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker::internal {

constexpr int64_t WrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
constexpr int64_t WrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

// For views that read some of a header's elements, or all in another order: they edit a copy, as such an edit cannot break
// the Header's invariant.
struct HeaderAccess {
  static HeaderFields& Fields(Header& header) { return header.fields_; }
};

// `dim` in [-rank, rank) as [0, rank). As in torch, a scalar takes 0 and -1.
// kOutOfRange  the tensor has no such dimension; the message begins with `call`
StatusOr<size_t> WrapDim(std::string_view call, const Header& header, int64_t dim);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_TENSOR_WRAP_H_
