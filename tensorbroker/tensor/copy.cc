#include "tensorbroker/tensor/copy.h"

#include <fmt/format.h>

#include <utility>

#include "tensorbroker/tensor/loops.h"
#include "tensorbroker/tensor/overlap.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {
namespace {

Status CheckDevices(const Header& destination, const Header& source) {
  if (!(destination.device() == source.device())) {
    return FailedPreconditionError(
        fmt::format("copy: the destination is on {}, the source on {}; move one to the other's "
                    "device first",
                    ToString(destination.device()), ToString(source.device())));
  }
  if (destination.device().type != DeviceType::kCpu) {
    return FailedPreconditionError(
        fmt::format("copy: both tensors are on {}, which is no host memory", ToString(destination.device())));
  }
  return OkStatus();
}

// True where element i of both starts at the same byte, for each i.
bool SameElements(const Header& destination, const Header& source, int64_t distance_bytes) {
  if (destination.itemsize() != source.itemsize()) return false;
  if (destination.offset_bytes() != source.offset_bytes() + distance_bytes) return false;
  for (int i = 0; i < destination.rank(); ++i) {
    if (destination.size(i) > 1 && destination.stride(i) != source.stride(i)) return false;
  }
  return true;
}

}  // namespace

Status CopyStrided(const Header& destination, std::span<std::byte> destination_storage, const Header& source,
                   std::span<const std::byte> source_storage) {
  TB_RETURN_IF_ERROR(CheckDevices(destination, source));
  auto expanded = views::Expand(source, destination.shape());
  if (!expanded.ok()) {
    return InvalidArgumentError(
        fmt::format("copy: the source {} cannot be broadcast to {}; reshape or expand it first",
                    ToString(source.shape()), ToString(destination.shape())));
  }
  TB_RETURN_IF_ERROR(CheckFits(destination, static_cast<int64_t>(destination_storage.size())));
  TB_RETURN_IF_ERROR(CheckFits(source, static_cast<int64_t>(source_storage.size())));
  if (destination.numel() == 0) return OkStatus();
  if (SelfOverlap(destination) != Overlap::kNone) {
    return FailedPreconditionError(fmt::format(
        "copy: more than one element of the destination, {} with strides {}, refers to one memory location; "
        "clone it before writing",
        ToString(destination.shape()), ToString(destination.strides())));
  }
  const bool same_dtype = destination.dtype() == source.dtype();
  const internal::Loops loops = internal::MakeLoops(destination, &*expanded);
  // Addresses as numbers: the spans may belong to different arrays.
  const int64_t distance = static_cast<int64_t>(reinterpret_cast<uintptr_t>(source_storage.data()) -
                                                reinterpret_cast<uintptr_t>(destination_storage.data()));
  if (SameElements(destination, *expanded, distance)) {
    if (same_dtype) return OkStatus();
  } else {
    const bool dense =
        same_dtype && loops.loops.size() <= 1 && destination.is_contiguous() && expanded->is_contiguous();
    if (!dense && MutualOverlap(destination, *expanded, distance) != Overlap::kNone) {
      return FailedPreconditionError(
          fmt::format("copy: source {} and destination {} share memory; clone the source first",
                      ToString(source), ToString(destination)));
    }
  }
  if (same_dtype) {
    internal::RunCopy(loops, destination.itemsize(), destination_storage.data(), source_storage.data());
  } else {
    internal::RunConvert(loops, destination.dtype(), destination_storage.data(), source.dtype(),
                         source_storage.data());
  }
  return OkStatus();
}

}  // namespace tensorbroker
