// How many bytes a broker may reserve: the default, the count, and the check against what the machine has
// left.
#ifndef TENSORBROKER_STORAGE_CAPACITY_H_
#define TENSORBROKER_STORAGE_CAPACITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/memory_info.h"
#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {

struct CapacityLimit {
  std::string what;  // "80 % of the free bytes of /dev/shm"
  int64_t bytes = 0;
  std::string remedy;  // "remount it larger, or use --memory=memfd"
};

struct Capacity {
  int64_t bytes = 0;
  std::string bound_by;  // the `what` of the limit that binds
  std::string remedy;
  std::vector<CapacityLimit> limits;  // all that were looked at, the least first
};

// The least of 80 % of the free bytes of the source's filesystem, 80 % of MemAvailable (not for hugetlbfs,
// whose pages are set aside already), and each ancestor cgroup's headroom less a margin for the broker's own
// heap.
// kUnimplemented  nothing bounds it that could be read
StatusOr<Capacity> DefaultCapacity(const SegmentSource& source, const MemoryInfoOptions& options = {});

// Bytes charged against a capacity. Thread-safe.
class Budget {
 public:
  explicit Budget(int64_t capacity_bytes) : capacity_bytes_(capacity_bytes) {}

  // kResourceExhausted  more than is free: asked, free and capacity; nothing is charged
  // kInvalidArgument    negative
  Status Charge(int64_t bytes);
  void Refund(int64_t bytes);

  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes() const;

 private:
  const int64_t capacity_bytes_;
  mutable Mutex mutex_;
  int64_t used_bytes_ TB_GUARDED_BY(mutex_) = 0;
};

// Refuses a Segment that the machine or a cgroup would answer with an OOM kill. Reads /proc and cgroup files
// at most once in 100 ms, sooner where a quarter of what was left has been given out since. Thread-safe.
class Headroom {
 public:
  explicit Headroom(SourceKind kind, MemoryInfoOptions options = {}, const Clock& clock = Clock::Real());

  // Before a reservation of `bytes`. OK is followed by one Done.
  // kResourceExhausted  which limit, its free bytes and the remedy
  Status Admit(int64_t bytes);
  // After it, whether it came about or not.
  void Done(int64_t bytes);

 private:
  void Refresh(TimePoint now) TB_REQUIRES(mutex_);

  const SourceKind kind_;
  const MemoryInfoOptions options_;
  const Clock& clock_;
  Mutex mutex_;
  TimePoint read_at_ TB_GUARDED_BY(mutex_);
  int64_t left_bytes_ TB_GUARDED_BY(mutex_) = 0;
  int64_t pending_bytes_ TB_GUARDED_BY(mutex_) = 0;  // admitted, not done
  int64_t done_bytes_ TB_GUARDED_BY(mutex_) = 0;     // done since read_at_
  std::string bound_by_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_CAPACITY_H_
