// Views: each function gives a new header over the same Storage, in O(rank), with no allocation up to
// kInlineRank and no byte touched. Names, defaults and rules are torch's; reasons in errors too.
//
// Codes, the same for all:
//   kInvalidArgument     element counts that differ, a bad shape or list of dimensions
//   kOutOfRange          a dimension or index that the tensor does not have
//   kFailedPrecondition  no strides can express the view; the message says to call contiguous or reshape
// Negative dimensions and indices count from the end. A view of a header that fits its Storage fits it too,
// except AsStrided's, whose caller asks CheckFits. A view without elements keeps its base's offset.
#ifndef TENSORBROKER_TENSOR_VIEWS_H_
#define TENSORBROKER_TENSOR_VIEWS_H_

#include <cstdint>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/dims.h"
#include "tensorbroker/tensor/dtype.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker::views {

// ---- Shapes (view_shape.cc)

// The same elements in row-major order, in `shape`; one size may be -1: it is inferred.
StatusOr<Header> View(const Header& header, const Dims& shape);
// As View; where strides do not allow it, the message says that reshape must copy: make the tensor
// contiguous, then View.
StatusOr<Header> Reshape(const Header& header, const Dims& shape);
// True where Reshape is a view, false where the elements must be copied (InferShape gives the copy's shape).
StatusOr<bool> ReshapeIsView(const Header& header, const Dims& shape);
// `shape` with its -1, if any, replaced by what makes it hold the header's elements.
StatusOr<Dims> InferShape(const Header& header, const Dims& shape);
// Dimensions start_dim to end_dim (both included) as one. Never copies, unlike torch's: see Reshape.
StatusOr<Header> Flatten(const Header& header, int64_t start_dim = 0, int64_t end_dim = -1);
// The same bytes as another dtype. Where item sizes differ the last dimension grows or shrinks, and must have
// stride 1.
StatusOr<Header> ViewDType(const Header& header, DType dtype);
// complex [...] as real [..., 2], and back.
StatusOr<Header> ViewAsReal(const Header& header);
StatusOr<Header> ViewAsComplex(const Header& header);

// ---- Dimensions (views.cc)

// Swaps the two dimensions of a matrix; a vector or scalar stays. (torch's t)
StatusOr<Header> T(const Header& header);
StatusOr<Header> Transpose(const Header& header, int64_t dim0, int64_t dim1);
StatusOr<Header> SwapAxes(const Header& header, int64_t axis0, int64_t axis1);  // NumPy's name for it
// Dimension i of the result is dimension dims[i].
StatusOr<Header> Permute(const Header& header, const Dims& dims);
StatusOr<Header> MoveDim(const Header& header, int64_t source, int64_t destination);
StatusOr<Header> Unsqueeze(const Header& header, int64_t dim);
// Without all dimensions of size 1.
StatusOr<Header> Squeeze(const Header& header);
// Without `dim` if its size is 1, else the same.
StatusOr<Header> Squeeze(const Header& header, int64_t dim);
// Dimensions of size 1 read as `shape` by stride 0, new ones in front; -1 keeps a size.
StatusOr<Header> Expand(const Header& header, const Dims& shape);

// ---- Ranges (views.cc)

// Elements start to start + length - 1 of `dim`.
StatusOr<Header> Narrow(const Header& header, int64_t dim, int64_t start, int64_t length);
// Element `index` of `dim`, without the dimension.
StatusOr<Header> Select(const Header& header, int64_t dim, int64_t index);
// Python's start:end:step on `dim`: ends are clamped. step > 0, as in torch (Flip goes backwards).
StatusOr<Header> Slice(const Header& header, int64_t dim, int64_t start, int64_t end, int64_t step = 1);
// All windows of `size` elements of `dim`, `step` apart; the window is a new last dimension.
StatusOr<Header> Unfold(const Header& header, int64_t dim, int64_t size, int64_t step);
// Backwards along `dims`, by negative strides. (torch's flip copies, as torch has no negative strides;
// NumPy's does not.)
StatusOr<Header> Flip(const Header& header, const Dims& dims);
// The diagonal `offset` above (below: negative) the main one of dims dim0 and dim1, as a new last dimension.
StatusOr<Header> Diagonal(const Header& header, int64_t offset = 0, int64_t dim0 = 0, int64_t dim1 = 1);
// Any strides over the Storage; `storage_offset` in elements from the Storage's first byte. Negative strides
// are allowed, which torch's as_strided refuses. Whether it fits is for CheckFits to say.
StatusOr<Header> AsStrided(const Header& header, const Dims& shape, const Dims& strides,
                           int64_t storage_offset);

// ---- Gradient flag (views.cc)

// The same with requires_grad off. It aliases: a write through it is seen.
Header Detach(const Header& header);
// kInvalidArgument  `requires_grad` on a bool or integer dtype
StatusOr<Header> WithRequiresGrad(const Header& header, bool requires_grad);

}  // namespace tensorbroker::views

#endif  // TENSORBROKER_TENSOR_VIEWS_H_
