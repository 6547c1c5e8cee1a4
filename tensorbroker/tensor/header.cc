#include "tensorbroker/tensor/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tensorbroker {

std::string ToString(const Dims& dims) {
  return fmt::format("({}{})", fmt::join(dims, ", "), dims.size() == 1 ? "," : "");
}

Dims ContiguousStrides(const Dims& shape) {
  Dims strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= std::max<int64_t>(shape[i], 1);
  }
  return strides;
}

namespace {

// What the Header's invariant says of a shape: rank, signs, and the count of bytes.
Status CheckShape(const Dims& shape, DType dtype) {
  TB_RETURN_IF_ERROR(CheckDType(dtype));
  if (shape.size() > static_cast<size_t>(kMaxRank)) {
    return InvalidArgumentError(
        fmt::format("header has {} dimensions; at most {} are allowed", shape.size(), kMaxRank));
  }
  int64_t bytes = ItemSize(dtype);
  bool overflow = false;
  for (const int64_t size : shape) {
    if (size < 0) {
      return InvalidArgumentError(fmt::format("shape {} has the negative size {}", ToString(shape), size));
    }
    overflow |= __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes);
  }
  if (overflow) {
    return OutOfRangeError(fmt::format("{} {} needs more bytes than 2^63 - 1; no Storage is that large",
                                       Name(dtype), ToString(shape)));
  }
  return OkStatus();
}

// Bytes from the first element back to the lowest one and on past the highest one; false on overflow.
bool Reach(const HeaderFields& fields, ByteRange& range) {
  range = {fields.offset_bytes, fields.offset_bytes};
  bool overflow = false;
  for (const int64_t size : fields.shape) {
    if (size == 0) return true;
  }
  const int64_t item = ItemSize(fields.dtype);
  for (size_t i = 0; i < fields.shape.size(); ++i) {
    int64_t reach = 0;
    overflow |= __builtin_mul_overflow(fields.shape[i] - 1, fields.strides[i], &reach);
    overflow |= __builtin_mul_overflow(reach, item, &reach);
    int64_t& end = reach < 0 ? range.begin : range.end;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  return !(overflow | __builtin_add_overflow(range.end, item, &range.end));
}

}  // namespace

StatusOr<Header> Header::Make(HeaderFields fields) {
  if (fields.shape.size() != fields.strides.size()) {
    return InvalidArgumentError(fmt::format("shape {} has {} dimensions, but strides {} have {}",
                                            ToString(fields.shape), fields.shape.size(),
                                            ToString(fields.strides), fields.strides.size()));
  }
  TB_RETURN_IF_ERROR(CheckShape(fields.shape, fields.dtype));
  const int64_t alignment = Alignment(fields.dtype);
  if (fields.offset_bytes % alignment != 0) {
    return InvalidArgumentError(
        fmt::format("offset of {} bytes is not a multiple of {}'s alignment of {} bytes", fields.offset_bytes,
                    Name(fields.dtype), alignment));
  }
  if (fields.offset_bytes < 0) {
    return OutOfRangeError(
        fmt::format("offset of {} bytes lies before the Storage's first byte", fields.offset_bytes));
  }
  if (fields.requires_grad && !IsFloating(fields.dtype) && !IsComplex(fields.dtype)) {
    return InvalidArgumentError(fmt::format(
        "requires_grad on {}: only floating and complex dtypes can require gradients", Name(fields.dtype)));
  }
  ByteRange range;
  if (!Reach(fields, range)) {
    return OutOfRangeError(fmt::format("shape {} with strides {} at byte {} reaches past byte 2^63 - 1",
                                       ToString(fields.shape), ToString(fields.strides),
                                       fields.offset_bytes));
  }
  if (range.begin < 0) {
    return OutOfRangeError(
        fmt::format("shape {} with strides {} at byte {} reaches to byte {}, before the Storage's first",
                    ToString(fields.shape), ToString(fields.strides), fields.offset_bytes, range.begin));
  }
  return Header(std::move(fields));
}

StatusOr<Header> Header::Contiguous(Dims shape, DType dtype, Device device, int64_t offset_bytes) {
  TB_RETURN_IF_ERROR(CheckShape(shape, dtype));
  HeaderFields fields;
  fields.strides = ContiguousStrides(shape);
  fields.shape = std::move(shape);
  fields.offset_bytes = offset_bytes;
  fields.device = device;
  fields.dtype = dtype;
  return Make(std::move(fields));
}

StatusOr<int64_t> Header::storage_offset() const {
  if (offset_bytes() % itemsize() != 0) {
    return FailedPreconditionError(
        fmt::format("storage_offset: {} bytes is not a multiple of {}'s {} bytes; use offset_bytes, NumPy or "
                    "DLPack, or a copy",
                    offset_bytes(), Name(dtype()), itemsize()));
  }
  return offset_bytes() / itemsize();
}

int64_t Header::numel() const {
  int64_t count = 1;
  for (const int64_t size : fields_.shape) count *= size;
  return count;
}

bool Header::is_contiguous() const {
  int64_t expected = 1;
  bool contiguous = true;
  for (size_t i = fields_.shape.size(); i-- > 0;) {
    const int64_t size = fields_.shape[i];
    if (size == 0) return true;
    if (size == 1) continue;
    contiguous &= fields_.strides[i] == expected;
    expected *= size;
  }
  return contiguous;
}

ByteRange ByteExtent(const Header& header) {
  ByteRange range;
  Reach(header.fields(), range);
  return range;
}

Status CheckFits(const Header& header, int64_t storage_nbytes) {
  const ByteRange range = ByteExtent(header);
  if (range.end > storage_nbytes) {
    return OutOfRangeError(fmt::format("{} reaches bytes {} to {}, but the Storage has {} bytes",
                                       ToString(header), range.begin, range.end, storage_nbytes));
  }
  return OkStatus();
}

std::string ToString(const Header& header) {
  return fmt::format("{} {} strides {} offset {} B {}", Name(header.dtype()), ToString(header.shape()),
                     ToString(header.strides()), header.offset_bytes(), ToString(header.device()));
}

}  // namespace tensorbroker
