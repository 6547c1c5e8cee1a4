#include "tensorbroker/storage/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "tensorbroker/base/units.h"

namespace tensorbroker {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr std::chrono::milliseconds kReadEvery{100};

// What a cgroup's limit must also hold: the broker's heap, gRPC's buffers, page tables. The default capacity
// keeps twice of what a single Segment must leave, so that all of the capacity can be had.
int64_t CgroupMargin(int64_t limit_bytes) { return std::max(limit_bytes / 32, 16 * kMiB); }

bool TakesOrdinaryMemory(SourceKind kind) { return kind == SourceKind::kShm || kind == SourceKind::kMemfd; }

constexpr std::string_view kCgroupRemedy =
    "raise memory.max (MemoryMax= in a unit, --memory= of a container)";
constexpr std::string_view kMachineRemedy = "free memory on this machine";

}  // namespace

StatusOr<Capacity> DefaultCapacity(const SegmentSource& source, const MemoryInfoOptions& options) {
  Capacity capacity;
  const SourceKind kind = source.info().kind;
  const FilesystemSpace space = source.Space();
  if (kind == SourceKind::kHugetlbfs) {
    capacity.limits.push_back(
        {"the free huge pages", space.free_bytes, "set more aside with vm.nr_hugepages"});
  } else if (space.total_bytes > 0) {
    capacity.limits.push_back(
        {fmt::format("80 % of the free bytes of the tmpfs ({} of {})", HumanBytes(space.free_bytes),
                     HumanBytes(space.total_bytes)),
         space.free_bytes / 10 * 8,
         "make it larger (mount -o remount,size=; in a container --shm-size=), or use --memory=memfd"});
  }
  if (TakesOrdinaryMemory(kind)) {
    if (const StatusOr<int64_t> available = GetMemAvailable(options); available.ok()) {
      capacity.limits.push_back({fmt::format("80 % of MemAvailable ({})", HumanBytes(*available)),
                                 *available / 10 * 8, std::string(kMachineRemedy)});
    }
    for (const CgroupHeadroom& level : GetCgroupHeadrooms(options)) {
      const int64_t bytes =
          std::max<int64_t>(0, level.headroom_bytes() - 2 * CgroupMargin(level.limit_bytes));
      capacity.limits.push_back({fmt::format("the cgroup's memory limit ({}, {} in use)",
                                             HumanBytes(level.limit_bytes), HumanBytes(level.used_bytes)),
                                 bytes, std::string(kCgroupRemedy)});
    }
  }
  if (capacity.limits.empty()) {
    return UnimplementedError("choose a capacity: nothing that bounds it can be read here; give --capacity");
  }
  std::stable_sort(capacity.limits.begin(), capacity.limits.end(),
                   [](const CapacityLimit& a, const CapacityLimit& b) { return a.bytes < b.bytes; });
  capacity.bytes = capacity.limits.front().bytes;
  capacity.bound_by = capacity.limits.front().what;
  capacity.remedy = capacity.limits.front().remedy;
  return capacity;
}

Status Budget::Charge(int64_t bytes) {
  if (bytes < 0) return InvalidArgumentError(fmt::format("reserve {} bytes: a size is not negative", bytes));
  const MutexLock lock(mutex_);
  const int64_t free_bytes = capacity_bytes_ - used_bytes_;
  if (bytes > free_bytes) {
    return ResourceExhaustedError(fmt::format("reserve {} bytes: {} of the capacity's {} bytes are free",
                                              bytes, free_bytes, capacity_bytes_));
  }
  used_bytes_ += bytes;
  return OkStatus();
}

void Budget::Refund(int64_t bytes) {
  const MutexLock lock(mutex_);
  used_bytes_ -= bytes;
}

int64_t Budget::used_bytes() const {
  const MutexLock lock(mutex_);
  return used_bytes_;
}

Headroom::Headroom(SourceKind kind, MemoryInfoOptions options, const Clock& clock)
    : kind_(kind), options_(std::move(options)), clock_(clock) {}

Status Headroom::Admit(int64_t bytes) {
  if (!TakesOrdinaryMemory(kind_)) return OkStatus();
  const MutexLock lock(mutex_);
  const TimePoint now = clock_.Now();
  if (now - read_at_ >= kReadEvery || bytes > left_bytes_ / 4 - done_bytes_ - pending_bytes_) Refresh(now);
  const int64_t free_bytes = std::max<int64_t>(0, left_bytes_ - pending_bytes_ - done_bytes_);
  if (bytes > free_bytes) {
    return ResourceExhaustedError(fmt::format(
        "reserve {} bytes: {} bytes are left of {}; past it the kernel kills processes: {}", bytes,
        free_bytes, bound_by_, bound_by_ == "MemAvailable" ? kMachineRemedy : kCgroupRemedy));
  }
  pending_bytes_ += bytes;
  return OkStatus();
}

void Headroom::Done(int64_t bytes) {
  if (!TakesOrdinaryMemory(kind_)) return;
  const MutexLock lock(mutex_);
  pending_bytes_ -= bytes;
  done_bytes_ += bytes;
}

void Headroom::Refresh(TimePoint now) {
  read_at_ = now;
  done_bytes_ = 0;
  left_bytes_ = std::numeric_limits<int64_t>::max();
  bound_by_ = "nothing";
  if (const StatusOr<int64_t> available = GetMemAvailable(options_); available.ok()) {
    left_bytes_ = *available - *available / 20;
    bound_by_ = "MemAvailable";
  }
  for (const CgroupHeadroom& level : GetCgroupHeadrooms(options_)) {
    const int64_t bytes = level.headroom_bytes() - CgroupMargin(level.limit_bytes);
    if (bytes >= left_bytes_) continue;
    left_bytes_ = bytes;
    bound_by_ = fmt::format("the cgroup's memory limit of {}", HumanBytes(level.limit_bytes));
  }
}

}  // namespace tensorbroker
