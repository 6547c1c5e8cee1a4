// The views that keep the row-major order of elements or bytes: view, reshape, flatten, view(dtype).
#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <utility>

#include "tensorbroker/tensor/views.h"
#include "tensorbroker/tensor/wrap.h"

namespace tensorbroker {

namespace internal {

StatusOr<size_t> WrapDim(std::string_view call, const Header& header, int64_t dim) {
  const int64_t rank = header.rank() == 0 ? 1 : header.rank();
  if (dim < -rank || dim >= rank) {
    return OutOfRangeError(fmt::format("{}: dimension {} is out of range; {} takes {} to {}", call, dim,
                                       ToString(header.shape()), -rank, rank - 1));
  }
  return static_cast<size_t>(dim < 0 ? dim + rank : dim);
}

}  // namespace internal

namespace views {

using internal::WrapDim;
using internal::WrapMul;

namespace {

StatusOr<Dims> Infer(std::string_view call, const Header& header, const Dims& shape) {
  const int64_t numel = header.numel();
  int64_t known = 1;
  bool overflow = false;
  std::optional<size_t> unknown;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      if (unknown) {
        return InvalidArgumentError(
            fmt::format("{}: {} has more than one -1; one size can be inferred", call, ToString(shape)));
      }
      unknown = i;
    } else if (shape[i] < 0) {
      return InvalidArgumentError(
          fmt::format("{}: {} has the negative size {}", call, ToString(shape), shape[i]));
    } else {
      overflow |= __builtin_mul_overflow(known, shape[i], &known);
    }
  }
  if (unknown && known == 0 && numel == 0 && !overflow) {
    return InvalidArgumentError(fmt::format(
        "{}: the -1 of {} can be any number, as the tensor has no elements: give it", call, ToString(shape)));
  }
  const bool fits = !overflow && (unknown ? known != 0 && numel % known == 0 : known == numel);
  if (!fits) {
    const auto count =
        overflow ? std::string("over 2^63") : fmt::format("{}{}", unknown ? "a multiple of " : "", known);
    return InvalidArgumentError(
        fmt::format("{}: {} takes {} elements, but the tensor {} has {}; choose sizes whose product is {}",
                    call, ToString(shape), count, ToString(header.shape()), numel, numel));
  }
  Dims result = shape;
  if (unknown) result[*unknown] = numel / known;
  return result;
}

// Strides that read `header`'s elements in row-major order as `shape` (of as many elements); none where no
// strides do. torch's own rule, for headers without elements too.
std::optional<Dims> StridesFor(const Header& header, const Dims& shape) {
  const Dims& old_shape = header.shape();
  if (header.numel() == 0) {
    return shape == old_shape ? header.strides() : ContiguousStrides(shape);
  }
  Dims strides(shape.size(), 1);
  if (old_shape.empty()) return strides;
  size_t next = shape.size();  // dimensions of `shape` that are still open
  int64_t base_stride = header.strides().back();
  int64_t old_count = 1;
  int64_t new_count = 1;
  for (size_t i = old_shape.size(); i-- > 0;) {
    old_count *= old_shape[i];
    const bool chunk_ends =
        i == 0 || (old_shape[i - 1] != 1 && header.strides()[i - 1] != WrapMul(old_count, base_stride));
    if (!chunk_ends) continue;
    while (next > 0 && (new_count < old_count || shape[next - 1] == 1)) {
      strides[next - 1] = WrapMul(new_count, base_stride);
      new_count *= shape[next - 1];
      --next;
    }
    if (new_count != old_count) return std::nullopt;
    if (i > 0) {
      base_stride = header.strides()[i - 1];
      old_count = 1;
      new_count = 1;
    }
  }
  if (next > 0) return std::nullopt;
  return strides;
}

StatusOr<Header> ViewAs(std::string_view call, std::string_view advice, const Header& header,
                        const Dims& shape) {
  std::optional<Dims> strides = StridesFor(header, shape);
  if (!strides) {
    return FailedPreconditionError(
        fmt::format("{}: no strides read {} with strides {} as {}, for a dimension would span two stretches "
                    "of memory; {}",
                    call, ToString(header.shape()), ToString(header.strides()), ToString(shape), advice));
  }
  HeaderFields fields = header.fields();
  fields.shape = shape;
  fields.strides = *std::move(strides);
  return Header::Make(std::move(fields));
}

constexpr std::string_view kViewAdvice = "call reshape, which copies where it must, or contiguous first";
constexpr std::string_view kReshapeAdvice = "it must copy: call contiguous first";

Status DTypeSizes(const Header& header, DType dtype, std::string_view what) {
  return InvalidArgumentError(fmt::format("view(dtype): {} to read {} as {}, whose item size differs", what,
                                          Name(header.dtype()), Name(dtype)));
}

}  // namespace

StatusOr<Dims> InferShape(const Header& header, const Dims& shape) { return Infer("reshape", header, shape); }

StatusOr<Header> View(const Header& header, const Dims& shape) {
  TB_ASSIGN_OR_RETURN(const Dims full, Infer("view", header, shape));
  return ViewAs("view", kViewAdvice, header, full);
}

StatusOr<Header> Reshape(const Header& header, const Dims& shape) {
  TB_ASSIGN_OR_RETURN(const Dims full, Infer("reshape", header, shape));
  return ViewAs("reshape", kReshapeAdvice, header, full);
}

StatusOr<bool> ReshapeIsView(const Header& header, const Dims& shape) {
  TB_ASSIGN_OR_RETURN(const Dims full, Infer("reshape", header, shape));
  return StridesFor(header, full).has_value();
}

StatusOr<Header> Flatten(const Header& header, int64_t start_dim, int64_t end_dim) {
  TB_ASSIGN_OR_RETURN(const size_t start, WrapDim("flatten", header, start_dim));
  TB_ASSIGN_OR_RETURN(const size_t end, WrapDim("flatten", header, end_dim));
  if (start > end) {
    return InvalidArgumentError(
        fmt::format("flatten: start_dim {} comes after end_dim {}", start_dim, end_dim));
  }
  if (header.rank() == 0) return View(header, {1});
  if (start == end) return header;
  Dims shape(header.shape().begin(), header.shape().begin() + start + 1);
  for (size_t i = start + 1; i <= end; ++i) shape[start] *= header.shape()[i];
  shape.insert(shape.end(), header.shape().begin() + end + 1, header.shape().end());
  return ViewAs("flatten", kReshapeAdvice, header, shape);
}

StatusOr<Header> ViewDType(const Header& header, DType dtype) {
  if (Status refused = CheckDType(dtype); !refused.ok()) return Annotate(refused, "view(dtype)");
  const int64_t from = header.itemsize();
  const int64_t to = ItemSize(dtype);
  HeaderFields fields = header.fields();
  fields.dtype = dtype;
  fields.requires_grad = header.requires_grad() && (IsFloating(dtype) || IsComplex(dtype));
  if (from != to) {
    if (header.rank() == 0) return DTypeSizes(header, dtype, "needs a dimension");
    if (fields.strides.back() != 1) {
      return FailedPreconditionError(fmt::format(
          "view(dtype): the last dimension must have stride 1 to read {} as {}, whose item size differs, but "
          "strides are {}; call contiguous first",
          Name(header.dtype()), Name(dtype), ToString(header.strides())));
    }
    const bool grows = from > to;
    const int64_t ratio = grows ? from / to : to / from;
    if (!grows && fields.shape.back() % ratio != 0) {
      return DTypeSizes(header, dtype,
                        fmt::format("last size {} must be a multiple of {}", fields.shape.back(), ratio));
    }
    for (size_t i = 0; i + 1 < fields.strides.size(); ++i) {
      if (!grows && fields.strides[i] % ratio != 0) {
        return FailedPreconditionError(fmt::format(
            "view(dtype): stride {} of dimension {} must be a multiple of {} to read {} as {}; call "
            "contiguous first",
            fields.strides[i], i, ratio, Name(header.dtype()), Name(dtype)));
      }
      fields.strides[i] = grows ? WrapMul(fields.strides[i], ratio) : fields.strides[i] / ratio;
    }
    fields.shape.back() = grows ? fields.shape.back() * ratio : fields.shape.back() / ratio;
  }
  auto result = Header::Make(std::move(fields));
  if (!result.ok()) return Annotate(result.status(), "view(dtype)");
  return result;
}

StatusOr<Header> ViewAsReal(const Header& header) {
  if (!IsComplex(header.dtype())) {
    return InvalidArgumentError(
        fmt::format("view_as_real: expects complex64 or complex128, not {}", Name(header.dtype())));
  }
  HeaderFields fields = header.fields();
  fields.dtype = header.dtype() == DType::kComplex64 ? DType::kFloat32 : DType::kFloat64;
  for (int64_t& stride : fields.strides) stride = WrapMul(stride, 2);
  fields.shape.push_back(2);
  fields.strides.push_back(1);
  return Header::Make(std::move(fields));
}

StatusOr<Header> ViewAsComplex(const Header& header) {
  if (header.dtype() != DType::kFloat32 && header.dtype() != DType::kFloat64) {
    return InvalidArgumentError(
        fmt::format("view_as_complex: expects float32 or float64, not {}", Name(header.dtype())));
  }
  if (header.rank() == 0 || header.shape().back() != 2) {
    return InvalidArgumentError(
        fmt::format("view_as_complex: the last dimension of {} must have size 2", ToString(header.shape())));
  }
  HeaderFields fields = header.fields();
  bool even = true;
  for (size_t i = 0; i + 1 < fields.strides.size(); ++i) {
    even &= fields.strides[i] % 2 == 0;
    fields.strides[i] /= 2;
  }
  if (!even || fields.strides.back() != 1) {
    return FailedPreconditionError(fmt::format(
        "view_as_complex: needs stride 1 in the last dimension and even ones before it, but strides are {}; "
        "call contiguous first",
        ToString(header.strides())));
  }
  fields.shape.pop_back();
  fields.strides.pop_back();
  fields.dtype = header.dtype() == DType::kFloat32 ? DType::kComplex64 : DType::kComplex128;
  auto result = Header::Make(std::move(fields));
  if (!result.ok()) return Annotate(result.status(), "view_as_complex");
  return result;
}

}  // namespace views
}  // namespace tensorbroker
