// A Segment: one contiguous piece of memory from the OS, as its owner sees it.
#ifndef TENSORBROKER_STORAGE_SEGMENT_H_
#define TENSORBROKER_STORAGE_SEGMENT_H_

#include <cstdint>
#include <string_view>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/mapping.h"

namespace tensorbroker {

enum class SourceKind : uint8_t { kShm, kMemfd, kHugetlbfs, kHeap };

// "shm", "memfd", "hugetlbfs", "heap".
std::string_view Name(SourceKind kind);
// Reads what Name gives, but for "heap" (which serves tests only).
// kInvalidArgument  anything else
StatusOr<SourceKind> ParseSourceKind(std::string_view text);

// Plain value.
struct SegmentInfo {
  SegmentId id;
  int64_t size_bytes = 0;  // whole pages of its source: what is reserved, and what a client may map
  SourceKind kind = SourceKind::kShm;
  bool huge_pages = false;  // at least its first huge page's worth of bytes is one
};

// An interface. Owns reserved memory until Retire or its end; all bytes are zero at first. Thread-safe: a
// grant that races with Retire gets a descriptor or kFailedPrecondition, never another Segment's memory.
class Segment {
 public:
  virtual ~Segment() = default;  // retires

  virtual const SegmentInfo& info() const = 0;

  // A descriptor for another process to map: for kReadOnly one that can neither be written, nor truncated,
  // nor mapped shared and writable, nor (by another uid) opened again. Does not block.
  // kDataLoss            the file was removed behind our back: the text names RemoveIPC and the remedy
  // kFailedPrecondition  retired
  // kResourceExhausted   no descriptor left
  // kUnimplemented       heap memory cannot be shared
  virtual StatusOr<Fd> OpenForGrant(Access access) = 0;

  // Gives the memory back to the OS, though processes may still map it (they then read zeros). Takes some 50
  // ms a GiB. Idempotent.
  virtual void Retire() = 0;

  // Lets the memory go, but leaves the bytes to those who have them mapped: it goes with the last mapping. For the
  // broker's own end, where no budget is left to keep. Idempotent; nothing after Retire.
  virtual void Leave() = 0;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_SEGMENT_H_
