#include "tensorbroker/tensor/views.h"

#include <fmt/format.h>

#include <algorithm>
#include <bitset>
#include <string_view>
#include <utility>

#include "tensorbroker/tensor/wrap.h"

namespace tensorbroker::views {

using internal::HeaderAccess;
using internal::WrapAdd;
using internal::WrapDim;
using internal::WrapMul;

namespace {

// Moves the first element `elements` strides away; not where there are no elements, whose place means
// nothing. Cannot overflow: the element that it moves to is one of the header's.
void MoveStart(HeaderFields& fields, int64_t index, int64_t stride) {
  for (const int64_t size : fields.shape) {
    if (size == 0) return;
  }
  fields.offset_bytes += index * stride * ItemSize(fields.dtype);
}

Status NeedsDimension(std::string_view call) {
  return InvalidArgumentError(fmt::format("{}: a tensor of rank 0 has no dimension to choose from", call));
}

}  // namespace

StatusOr<Header> T(const Header& header) {
  if (header.rank() > 2) {
    return InvalidArgumentError(
        fmt::format("t: expects at most 2 dimensions, but {} has {}; use transpose or permute",
                    ToString(header.shape()), header.rank()));
  }
  return header.rank() < 2 ? header : Transpose(header, 0, 1);
}

StatusOr<Header> Transpose(const Header& header, int64_t dim0, int64_t dim1) {
  TB_ASSIGN_OR_RETURN(const size_t a, WrapDim("transpose", header, dim0));
  TB_ASSIGN_OR_RETURN(const size_t b, WrapDim("transpose", header, dim1));
  if (header.rank() == 0) return header;
  StatusOr<Header> result(header);
  HeaderFields& fields = HeaderAccess::Fields(*result);
  std::swap(fields.shape[a], fields.shape[b]);
  std::swap(fields.strides[a], fields.strides[b]);
  return result;
}

StatusOr<Header> SwapAxes(const Header& header, int64_t axis0, int64_t axis1) {
  return Transpose(header, axis0, axis1);
}

StatusOr<Header> Permute(const Header& header, const Dims& dims) {
  if (dims.size() != static_cast<size_t>(header.rank())) {
    return InvalidArgumentError(fmt::format("permute: {} names {} dimensions, but {} has {}", ToString(dims),
                                            dims.size(), ToString(header.shape()), header.rank()));
  }
  StatusOr<Header> result(header);
  HeaderFields& fields = HeaderAccess::Fields(*result);
  std::bitset<kMaxRank> seen;
  for (size_t i = 0; i < dims.size(); ++i) {
    TB_ASSIGN_OR_RETURN(const size_t from, WrapDim("permute", header, dims[i]));
    if (seen[from]) {
      return InvalidArgumentError(fmt::format("permute: {} names dimension {} twice", ToString(dims), from));
    }
    seen.set(from);
    fields.shape[i] = header.shape()[from];
    fields.strides[i] = header.strides()[from];
  }
  return result;
}

StatusOr<Header> MoveDim(const Header& header, int64_t source, int64_t destination) {
  TB_ASSIGN_OR_RETURN(const size_t from, WrapDim("movedim", header, source));
  TB_ASSIGN_OR_RETURN(const size_t to, WrapDim("movedim", header, destination));
  if (header.rank() == 0) return header;
  HeaderFields fields = header.fields();
  for (Dims* dims : {&fields.shape, &fields.strides}) {
    if (from < to) std::rotate(dims->begin() + from, dims->begin() + from + 1, dims->begin() + to + 1);
    if (to < from) std::rotate(dims->begin() + to, dims->begin() + from, dims->begin() + from + 1);
  }
  return Header::Make(std::move(fields));
}

StatusOr<Header> Unsqueeze(const Header& header, int64_t dim) {
  const int64_t rank = header.rank();
  if (dim < -rank - 1 || dim > rank) {
    return OutOfRangeError(fmt::format("unsqueeze: dimension {} is out of range; {} takes {} to {}", dim,
                                       ToString(header.shape()), -rank - 1, rank));
  }
  const size_t at = static_cast<size_t>(dim < 0 ? dim + rank + 1 : dim);
  HeaderFields fields = header.fields();
  const int64_t stride = at < static_cast<size_t>(rank) ? WrapMul(fields.shape[at], fields.strides[at]) : 1;
  fields.shape.insert(fields.shape.begin() + at, 1);
  fields.strides.insert(fields.strides.begin() + at, stride);
  return Header::Make(std::move(fields));
}

StatusOr<Header> Squeeze(const Header& header) {
  HeaderFields fields = header.fields();
  fields.shape.clear();
  fields.strides.clear();
  for (int i = 0; i < header.rank(); ++i) {
    if (header.size(i) == 1) continue;
    fields.shape.push_back(header.size(i));
    fields.strides.push_back(header.stride(i));
  }
  return Header::Make(std::move(fields));
}

StatusOr<Header> Squeeze(const Header& header, int64_t dim) {
  TB_ASSIGN_OR_RETURN(const size_t at, WrapDim("squeeze", header, dim));
  if (header.rank() == 0 || header.shape()[at] != 1) return header;
  HeaderFields fields = header.fields();
  fields.shape.erase(fields.shape.begin() + at);
  fields.strides.erase(fields.strides.begin() + at);
  return Header::Make(std::move(fields));
}

StatusOr<Header> Expand(const Header& header, const Dims& shape) {
  const size_t rank = static_cast<size_t>(header.rank());
  if (shape.size() < rank) {
    return InvalidArgumentError(fmt::format("expand: {} has fewer dimensions than the tensor's {}",
                                            ToString(shape), ToString(header.shape())));
  }
  HeaderFields fields = header.fields();
  const size_t added = shape.size() - rank;
  fields.shape = shape;
  fields.strides.resize(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    const bool is_new = i < added;
    const int64_t size = is_new ? 1 : header.shape()[i - added];
    int64_t stride = 0;
    if (!is_new) {
      stride = header.strides()[i - added];
    } else if (rank > 0) {
      stride = WrapMul(fields.shape[i + 1], fields.strides[i + 1]);
    }
    int64_t& target = fields.shape[i];
    if (target == -1 && is_new) {
      return InvalidArgumentError(fmt::format(
          "expand: -1 keeps a size, but dimension {} of {} is new: give its size", i, ToString(shape)));
    }
    if (target == -1) target = size;
    if (target != size) {
      if (size != 1) {
        return InvalidArgumentError(fmt::format(
            "expand: size {} must match the existing size {} at dimension {}, which is not 1; asked {}, "
            "tensor {}",
            target, size, i, ToString(shape), ToString(header.shape())));
      }
      stride = 0;
    }
    fields.strides[i] = stride;
  }
  return Header::Make(std::move(fields));
}

StatusOr<Header> Narrow(const Header& header, int64_t dim, int64_t start, int64_t length) {
  if (header.rank() == 0) return NeedsDimension("narrow");
  TB_ASSIGN_OR_RETURN(const size_t at, WrapDim("narrow", header, dim));
  const int64_t size = header.shape()[at];
  if (length < 0) return InvalidArgumentError(fmt::format("narrow: length {} is negative", length));
  if (start < -size || start > size) {
    return OutOfRangeError(
        fmt::format("narrow: start {} is out of range for dimension {} of size {}", start, at, size));
  }
  const int64_t first = start < 0 ? start + size : start;
  if (length > size - first) {
    return OutOfRangeError(
        fmt::format("narrow: start {} + length {} exceeds dimension {} of size {}", first, length, at, size));
  }
  StatusOr<Header> result(header);
  HeaderFields& fields = HeaderAccess::Fields(*result);
  fields.shape[at] = length;
  MoveStart(fields, first, fields.strides[at]);
  return result;
}

StatusOr<Header> Select(const Header& header, int64_t dim, int64_t index) {
  if (header.rank() == 0) return NeedsDimension("select");
  TB_ASSIGN_OR_RETURN(const size_t at, WrapDim("select", header, dim));
  const int64_t size = header.shape()[at];
  if (index < -size || index >= size) {
    return OutOfRangeError(
        fmt::format("select: index {} is out of bounds for dimension {} of size {}", index, at, size));
  }
  StatusOr<Header> result(header);
  HeaderFields& fields = HeaderAccess::Fields(*result);
  MoveStart(fields, index < 0 ? index + size : index, fields.strides[at]);
  fields.shape.erase(fields.shape.begin() + at);
  fields.strides.erase(fields.strides.begin() + at);
  return result;
}

StatusOr<Header> Slice(const Header& header, int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (header.rank() == 0) return NeedsDimension("slice");
  TB_ASSIGN_OR_RETURN(const size_t at, WrapDim("slice", header, dim));
  if (step <= 0) {
    return InvalidArgumentError(
        fmt::format("slice: step {} must be positive; use flip to go backwards", step));
  }
  const int64_t size = header.shape()[at];
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  const int64_t last = std::clamp<int64_t>(end < 0 ? end + size : end, first, size);
  StatusOr<Header> result(header);
  HeaderFields& fields = HeaderAccess::Fields(*result);
  fields.shape[at] = (last - first) / step + ((last - first) % step != 0 ? 1 : 0);
  MoveStart(fields, first, fields.strides[at]);
  fields.strides[at] = WrapMul(fields.strides[at], step);
  return result;
}

StatusOr<Header> Unfold(const Header& header, int64_t dim, int64_t size, int64_t step) {
  TB_ASSIGN_OR_RETURN(const size_t at, WrapDim("unfold", header, dim));
  const bool scalar = header.rank() == 0;
  const int64_t whole = scalar ? 1 : header.shape()[at];
  if (size < 0 || step <= 0) {
    return InvalidArgumentError(
        fmt::format("unfold: size {} must not be negative, and step {} must be positive", size, step));
  }
  if (size > whole) {
    return OutOfRangeError(
        fmt::format("unfold: windows of size {} do not fit into dimension {} of size {}", size, at, whole));
  }
  HeaderFields fields = header.fields();
  fields.shape.push_back(size);
  fields.strides.push_back(scalar ? 1 : header.strides()[at]);
  if (!scalar) {
    fields.shape[at] = (whole - size) / step + 1;
    fields.strides[at] = WrapMul(fields.strides[at], step);
  }
  return Header::Make(std::move(fields));
}

StatusOr<Header> Flip(const Header& header, const Dims& dims) {
  HeaderFields fields = header.fields();
  std::bitset<kMaxRank> seen;
  for (const int64_t dim : dims) {
    TB_ASSIGN_OR_RETURN(const size_t at, WrapDim("flip", header, dim));
    if (seen[at])
      return InvalidArgumentError(fmt::format("flip: {} names dimension {} twice", ToString(dims), at));
    seen.set(at);
    if (header.rank() == 0) continue;
    MoveStart(fields, fields.shape[at] - 1, fields.strides[at]);
    fields.strides[at] = WrapMul(fields.strides[at], -1);
  }
  return Header::Make(std::move(fields));
}

StatusOr<Header> Diagonal(const Header& header, int64_t offset, int64_t dim0, int64_t dim1) {
  TB_ASSIGN_OR_RETURN(const size_t row, WrapDim("diagonal", header, dim0));
  TB_ASSIGN_OR_RETURN(const size_t column, WrapDim("diagonal", header, dim1));
  if (row == column) {
    return InvalidArgumentError(fmt::format("diagonal: dimensions {} and {} are the same one", dim0, dim1));
  }
  const int64_t rows = header.shape()[row];
  const int64_t columns = header.shape()[column];
  // Both differences are taken where they cannot overflow.
  const int64_t skip_rows = offset < 0 ? (offset <= -rows ? rows : -offset) : 0;
  const int64_t skip_columns = offset > 0 ? std::min(offset, columns) : 0;
  HeaderFields fields = header.fields();
  fields.shape.push_back(std::min(rows - skip_rows, columns - skip_columns));
  fields.strides.push_back(WrapAdd(fields.strides[row], fields.strides[column]));
  const int64_t row_stride = fields.strides[row];
  const int64_t column_stride = fields.strides[column];
  for (Dims* list : {&fields.shape, &fields.strides}) {
    list->erase(list->begin() + std::max(row, column));
    list->erase(list->begin() + std::min(row, column));
  }
  MoveStart(fields, skip_rows, row_stride);
  MoveStart(fields, skip_columns, column_stride);
  return Header::Make(std::move(fields));
}

StatusOr<Header> AsStrided(const Header& header, const Dims& shape, const Dims& strides,
                           int64_t storage_offset) {
  HeaderFields fields = header.fields();
  fields.shape = shape;
  fields.strides = strides;
  if (__builtin_mul_overflow(storage_offset, header.itemsize(), &fields.offset_bytes)) {
    return OutOfRangeError(fmt::format("as_strided: storage offset {} of {} is past byte 2^63 - 1",
                                       storage_offset, Name(header.dtype())));
  }
  auto result = Header::Make(std::move(fields));
  if (!result.ok()) return Annotate(result.status(), "as_strided");
  return result;
}

Header Detach(const Header& header) {
  HeaderFields fields = header.fields();
  fields.requires_grad = false;
  return *Header::Make(std::move(fields));
}

StatusOr<Header> WithRequiresGrad(const Header& header, bool requires_grad) {
  HeaderFields fields = header.fields();
  fields.requires_grad = requires_grad;
  return Header::Make(std::move(fields));
}

}  // namespace tensorbroker::views
