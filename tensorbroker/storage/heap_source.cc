#include "tensorbroker/storage/heap_source.h"

#include <fmt/format.h>

#include <cstdlib>
#include <utility>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/storage/round_up.h"

namespace tensorbroker {
namespace {

struct FreeDeleter {
  void operator()(void* bytes) const { std::free(bytes); }
};

class HeapSegment : public Segment {
 public:
  HeapSegment(SegmentInfo info, std::unique_ptr<void, FreeDeleter> bytes,
              std::shared_ptr<std::atomic<int64_t>> used)
      : info_(info), bytes_(std::move(bytes)), used_(std::move(used)) {}
  ~HeapSegment() override { HeapSegment::Retire(); }

  const SegmentInfo& info() const override { return info_; }

  StatusOr<Fd> OpenForGrant(Access) override {
    const MutexLock lock(mutex_);
    if (bytes_ == nullptr) return FailedPreconditionError("grant a Segment: it is retired");
    return UnimplementedError("grant a Segment: heap memory cannot be shared");
  }

  void Retire() override {
    const MutexLock lock(mutex_);
    if (bytes_ != nullptr) *used_ -= info_.size_bytes;
    bytes_.reset();
  }

  void Leave() override { Retire(); }  // nobody else has it mapped

  std::span<std::byte> Bytes() {
    const MutexLock lock(mutex_);
    if (bytes_ == nullptr) return {};
    return {static_cast<std::byte*>(bytes_.get()), static_cast<size_t>(info_.size_bytes)};
  }

 private:
  const SegmentInfo info_;
  Mutex mutex_;
  std::unique_ptr<void, FreeDeleter> bytes_ TB_GUARDED_BY(mutex_);
  const std::shared_ptr<std::atomic<int64_t>> used_;
};

}  // namespace

HeapSource::HeapSource(int64_t limit_bytes) : limit_bytes_(limit_bytes) {
  info_.kind = SourceKind::kHeap;
  info_.page_bytes = PageSize();
  info_.huge_pages = "none (heap)";
}

StatusOr<std::shared_ptr<Segment>> HeapSource::Claim(SegmentId id, int64_t size_bytes,
                                                     const CancelFn& cancelled) {
  TB_ASSIGN_OR_RETURN(const int64_t whole_bytes, SegmentBytes(size_bytes, info_.page_bytes));
  if (cancelled && cancelled())
    return CancelledError(fmt::format("reserve {} bytes: the caller has gone", size_bytes));
  const int64_t before = used_bytes_->fetch_add(whole_bytes);
  std::unique_ptr<void, FreeDeleter> bytes;
  if (whole_bytes <= limit_bytes_ - before) bytes.reset(std::calloc(1, static_cast<size_t>(whole_bytes)));
  if (bytes == nullptr) {
    *used_bytes_ -= whole_bytes;
    return ResourceExhaustedError(fmt::format("reserve {} bytes: {} of the heap's {} are free", size_bytes,
                                              limit_bytes_ - before, limit_bytes_));
  }
  const SegmentInfo info{id, whole_bytes, SourceKind::kHeap, false};
  return std::make_shared<HeapSegment>(info, std::move(bytes), used_bytes_);
}

FilesystemSpace HeapSource::Space() const {
  FilesystemSpace space;
  space.total_bytes = limit_bytes_;
  space.free_bytes = limit_bytes_ - *used_bytes_;
  space.block_bytes = info_.page_bytes;
  return space;
}

std::span<std::byte> HeapSource::Bytes(Segment& segment) {
  return segment.info().kind == SourceKind::kHeap ? static_cast<HeapSegment&>(segment).Bytes()
                                                  : std::span<std::byte>{};
}

}  // namespace tensorbroker
