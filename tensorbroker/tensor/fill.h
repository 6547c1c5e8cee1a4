// Values into a tensor in host memory, over a span that the caller gives.
#ifndef TENSORBROKER_TENSOR_FILL_H_
#define TENSORBROKER_TENSOR_FILL_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/header.h"
#include "tensorbroker/tensor/scalar.h"

namespace tensorbroker {

// Writes `value` into every element; `storage` is the header's whole Storage.
// kInvalidArgument     the dtype cannot hold the value
// kOutOfRange          the header reaches outside `storage`
// kFailedPrecondition  it lies on a GPU
Status FillStrided(const Header& header, std::span<std::byte> storage, const Scalar& value);

// How many numbers start, start + step, ... lie before `end` (after it, where step is negative).
// kInvalidArgument  step is 0, leads away from `end`, or a number is not finite
StatusOr<int64_t> ArangeLength(double start, double end, double step);

// Writes start + i * step, computed in double, into element i in row-major order.
// kInvalidArgument     bool or complex dtype, or the first or last number is out of the dtype's range
// kOutOfRange          the header reaches outside `storage`
// kFailedPrecondition  it lies on a GPU, or names an element twice
Status FillArange(const Header& header, std::span<std::byte> storage, double start, double step);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_FILL_H_
