#include "tensorbroker/tensor/fill.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tensorbroker/tensor/convert.h"
#include "tensorbroker/tensor/loops.h"
#include "tensorbroker/tensor/overlap.h"

namespace tensorbroker {
namespace {

Status CheckWritable(std::string_view call, const Header& header, std::span<std::byte> storage) {
  if (header.device().type != DeviceType::kCpu) {
    return FailedPreconditionError(
        fmt::format("{}: the tensor is on {}, which is no host memory", call, ToString(header.device())));
  }
  return CheckFits(header, static_cast<int64_t>(storage.size()));
}

}  // namespace

Status FillStrided(const Header& header, std::span<std::byte> storage, const Scalar& value) {
  TB_RETURN_IF_ERROR(CheckWritable("fill", header, storage));
  alignas(16) std::byte element[16];
  if (Status stored = StoreScalar(value, header.dtype(), element); !stored.ok())
    return Annotate(stored, "fill");
  if (header.numel() == 0) return OkStatus();
  internal::RunCopy(internal::MakeLoops(header, nullptr), header.itemsize(), storage.data(), element);
  return OkStatus();
}

StatusOr<int64_t> ArangeLength(double start, double end, double step) {
  if (!std::isfinite(start) || !std::isfinite(end) || !std::isfinite(step)) {
    return InvalidArgumentError(fmt::format("arange: {} to {} by {} is not finite", start, end, step));
  }
  if (step == 0) return InvalidArgumentError("arange: step must not be 0");
  if (step > 0 ? start > end : start < end) {
    return InvalidArgumentError(
        fmt::format("arange: a step of {} leads from {} away from {}", step, start, end));
  }
  const double length = std::ceil((end - start) / step);
  if (!(length < 9.2e18)) return InvalidArgumentError(fmt::format("arange: {} numbers are too many", length));
  return static_cast<int64_t>(length);
}

Status FillArange(const Header& header, std::span<std::byte> storage, double start, double step) {
  TB_RETURN_IF_ERROR(CheckWritable("arange", header, storage));
  if (header.dtype() == DType::kBool || IsComplex(header.dtype())) {
    return InvalidArgumentError(
        fmt::format("arange: {} has no order; use an integer or floating dtype", Name(header.dtype())));
  }
  const int64_t count = header.numel();
  if (count == 0) return OkStatus();
  if (SelfOverlap(header) != Overlap::kNone) {
    return FailedPreconditionError(
        "arange: more than one element of the tensor refers to one memory location");
  }
  alignas(16) std::byte probe[16];
  for (const double value : {start, start + static_cast<double>(count - 1) * step}) {
    if (Status held = StoreScalar(value, header.dtype(), probe); !held.ok()) return Annotate(held, "arange");
  }
  // An odometer over the rows; along a row, chunk by chunk.
  const int rank = header.rank();
  const int64_t row_size = rank == 0 ? 1 : header.size(rank - 1);
  const int64_t row_stride = rank == 0 ? 0 : header.stride(rank - 1) * header.itemsize();
  Dims index(static_cast<size_t>(rank), 0);
  double numbers[internal::kConvertChunk];
  alignas(16) std::byte converted[internal::kConvertChunk * 16];
  for (int64_t done = 0; done < count;) {
    int64_t address = header.offset_bytes();
    for (int i = 0; i < rank; ++i)
      address += index[static_cast<size_t>(i)] * header.stride(i) * header.itemsize();
    for (int64_t in_row = 0; in_row < row_size; in_row += internal::kConvertChunk) {
      const int64_t n = std::min(internal::kConvertChunk, row_size - in_row);
      for (int64_t i = 0; i < n; ++i) numbers[i] = start + static_cast<double>(done + i) * step;
      internal::ConvertElements(DType::kFloat64, reinterpret_cast<const std::byte*>(numbers), header.dtype(),
                                converted, n);
      internal::Loops scatter;
      scatter.loops.push_back({n, row_stride, header.itemsize()});
      internal::RunCopy(scatter, header.itemsize(), storage.data() + address + in_row * row_stride,
                        converted);
      done += n;
    }
    for (int i = rank - 1; i-- > 0;) {
      if (++index[static_cast<size_t>(i)] < header.size(i)) break;
      index[static_cast<size_t>(i)] = 0;
    }
  }
  return OkStatus();
}

}  // namespace tensorbroker
