// The header: how to read a Storage as a tensor. A small value; it knows no bytes and keeps none alive.
//
// Invariant of every Header: shape and strides have one rank; no size is negative; the byte offset is a
// multiple of the element's alignment; the bytes of all elements (numel x item size, counting a size of 0 as
// 1) fit into int64_t. Whether it lies inside a Storage is another question, asked in one place: CheckFits.
#ifndef TENSORBROKER_TENSOR_HEADER_H_
#define TENSORBROKER_TENSOR_HEADER_H_

#include <cstdint>
#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/device.h"
#include "tensorbroker/tensor/dims.h"
#include "tensorbroker/tensor/dtype.h"

namespace tensorbroker {

// A header's parts before anyone has checked them.
struct HeaderFields {
  Dims shape;
  Dims strides;              // in elements; negative and zero are allowed
  int64_t offset_bytes = 0;  // from the Storage's first byte to the element at index (0, ..., 0)
  Device device;
  DType dtype = DType::kFloat32;
  bool requires_grad = false;  // a flag that travels; gradients are never shared

  friend bool operator==(const HeaderFields&, const HeaderFields&) = default;
};

namespace internal {
struct HeaderAccess;
}

// Plain value: copy freely, no allocation up to kInlineRank. A default one is a float32 scalar at byte 0.
class Header {
 public:
  Header() = default;

  // kInvalidArgument  rank of shape is not that of strides, rank over kMaxRank, a negative size, an offset
  // that is no
  //                   multiple of the dtype's alignment, requires_grad on a bool or integer dtype
  // kOutOfRange       more bytes than int64_t counts, or an element before byte 0 or past 2^63 - 1: in no
  // Storage
  static StatusOr<Header> Make(HeaderFields fields);

  // Row-major strides for `shape`. Codes as Make.
  static StatusOr<Header> Contiguous(Dims shape, DType dtype, Device device = {}, int64_t offset_bytes = 0);

  DType dtype() const { return fields_.dtype; }
  Device device() const { return fields_.device; }
  const Dims& shape() const { return fields_.shape; }
  const Dims& strides() const { return fields_.strides; }  // in elements
  int rank() const { return static_cast<int>(fields_.shape.size()); }
  int64_t size(int dim) const { return fields_.shape[static_cast<size_t>(dim)]; }      // 0 <= dim < rank()
  int64_t stride(int dim) const { return fields_.strides[static_cast<size_t>(dim)]; }  // 0 <= dim < rank()
  int64_t offset_bytes() const { return fields_.offset_bytes; }
  bool requires_grad() const { return fields_.requires_grad; }
  int64_t itemsize() const { return ItemSize(fields_.dtype); }
  const HeaderFields& fields() const { return fields_; }

  // The offset in elements, as torch counts it.
  // kFailedPrecondition  the byte offset is no multiple of the item size; use offset_bytes(), NumPy or
  // DLPack, or a copy
  StatusOr<int64_t> storage_offset() const;

  // Elements; 1 for rank 0.
  int64_t numel() const;
  // numel() x item size: what a contiguous copy takes, not what the view spans.
  int64_t nbytes() const { return numel() * itemsize(); }
  // True where the elements stand row-major without gaps. Sizes of 1 may have any stride; no elements: true.
  bool is_contiguous() const;

  friend bool operator==(const Header&, const Header&) = default;

 private:
  friend struct internal::HeaderAccess;
  explicit Header(HeaderFields fields) : fields_(std::move(fields)) {}

  HeaderFields fields_;
};

static_assert(sizeof(Header) <= 128, "a header is passed and stored by value");

// Row-major strides for `shape`, whose sizes are checked: (2, 3, 4) gives (12, 4, 1). As torch, a size of 0
// counts as 1.
Dims ContiguousStrides(const Dims& shape);

// Bytes that a header touches: [begin, end) from the Storage's first byte.
struct ByteRange {
  int64_t begin = 0;
  int64_t end = 0;

  friend bool operator==(const ByteRange&, const ByteRange&) = default;
};

// The least range that holds every element; {offset, offset} where there are none.
ByteRange ByteExtent(const Header& header);

// OK where every element lies in a Storage of `storage_nbytes` (>= 0) bytes. The one place where bounds are
// judged, for headers from peers too: no arithmetic overflows. A header without elements fits where its
// offset is at most `storage_nbytes`.
// kOutOfRange  it does not; the message names the bytes that it reaches and the Storage's size
Status CheckFits(const Header& header, int64_t storage_nbytes);

// "float32 (2, 3) strides (3, 1) offset 0 B cpu": for messages and logs.
std::string ToString(const Header& header);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_HEADER_H_
