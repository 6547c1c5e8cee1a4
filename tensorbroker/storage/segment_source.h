// Where Segments come from: one interface, a backend a file, one contract suite over all (tests/storage).
//
// Sources know nothing of capacity: a Budget and a Headroom stand before them (allocator.h).
#ifndef TENSORBROKER_STORAGE_SEGMENT_SOURCE_H_
#define TENSORBROKER_STORAGE_SEGMENT_SOURCE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/memory_info.h"
#include "tensorbroker/storage/segment.h"

namespace tensorbroker {

// Asked between steps of a long reservation; true gives up. Empty: never.
using CancelFn = std::function<bool()>;

struct SourceInfo {
  SourceKind kind = SourceKind::kShm;
  std::string place;          // the directory; empty for memfd and heap
  int64_t page_bytes = 4096;  // Segment sizes are multiples of this
  std::string huge_pages;     // what is to be had: "none (mount option huge= is never)", "on advice", ...
};

struct SweepResult {
  int64_t files = 0;
  int64_t bytes = 0;
};

// An interface. Thread-safe. Its Segments may outlive it.
class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  virtual const SourceInfo& info() const = 0;

  // A Segment of at least `size_bytes` (> 0), all of it reserved, all zero. Blocks: some 0.2 s a GiB. `id` is
  // fresh.
  // kInvalidArgument    size_bytes <= 0
  // kResourceExhausted  the filesystem, its inodes, huge pages, memory, or descriptors are short: asked and
  //                     free bytes, and the remedy. Nothing is left of the attempt.
  // kCancelled          `cancelled` said so. Nothing is left.
  // kAlreadyExists      a file of this id is there
  virtual StatusOr<std::shared_ptr<Segment>> Claim(SegmentId id, int64_t size_bytes,
                                                   const CancelFn& cancelled) = 0;

  // The filesystem behind it; all zero where none binds (memfd, heap).
  virtual FilesystemSpace Space() const = 0;

  // Empty while all is well; else what happened to the Segments' place, for `info` and the log: the directory
  // was removed behind our back (logind's RemoveIPC does that at a user's last logout). Cheap.
  virtual std::string Problem() const = 0;

  // Removes what a dead broker of this instance left, and what dead embedded brokers of this uid left beside it: only files
  // of our own naming form in our own directories. Gives what it found of this instance.
  // Called once, before the first Claim. Processes that map them keep their bytes.
  virtual StatusOr<SweepResult> Sweep() = 0;
};

struct SourceOptions {
  SourceKind kind = SourceKind::kShm;
  std::string instance;   // letters, digits, '-', '_' and '.': part of the directory's name
  std::string directory;  // where the instance's directory is made; default: /dev/shm, or the first hugetlbfs
};

// Opens a source. For shm and hugetlbfs: makes `<directory>/tensorbroker-<uid>-<instance>` (0700) and holds
// its lock for the source's life, so that one broker an instance uses it; both go when the source ends and
// its Segments are gone.
// kInvalidArgument   a bad instance, or `directory` is no filesystem of that kind
// kAlreadyExists     another broker of this instance runs: "already running, pid N"
// kPermissionDenied  the directory is a link or another uid's
// kNotFound          `directory` is missing
// kUnimplemented     no hugetlbfs is mounted, or it has no pages: the reason and the remedy
StatusOr<std::unique_ptr<SegmentSource>> OpenSource(const SourceOptions& options);

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_SEGMENT_SOURCE_H_
