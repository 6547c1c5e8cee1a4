// Sizes in whole pages.
#ifndef TENSORBROKER_STORAGE_ROUND_UP_H_
#define TENSORBROKER_STORAGE_ROUND_UP_H_

#include <cstdint>
#include <limits>
#include <string>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

// `size_bytes` in whole pages of `page_bytes` (a power of two).
// kInvalidArgument    size_bytes <= 0
// kResourceExhausted  past 2^63: no machine has that
inline StatusOr<int64_t> SegmentBytes(int64_t size_bytes, int64_t page_bytes) {
  if (size_bytes <= 0) {
    return InvalidArgumentError("reserve " + std::to_string(size_bytes) +
                                " bytes: a Segment has at least one");
  }
  if (size_bytes > std::numeric_limits<int64_t>::max() - (page_bytes - 1)) {
    return ResourceExhaustedError("reserve " + std::to_string(size_bytes) + " bytes: no machine has so many");
  }
  return (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_ROUND_UP_H_
