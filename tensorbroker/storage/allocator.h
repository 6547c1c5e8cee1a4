// Blocks: ranges of Segments that Storages lie in.
#ifndef TENSORBROKER_STORAGE_ALLOCATOR_H_
#define TENSORBROKER_STORAGE_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "tensorbroker/base/status.h"
#include "tensorbroker/storage/capacity.h"
#include "tensorbroker/storage/segment.h"
#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {

inline constexpr int64_t kHostAlignmentBytes = 64;

// Who may share a Segment: it serves one domain for its whole life, because the kernel grants Segments, not
// ranges.
struct AccessDomain {
  uint32_t uid = 0;
  uint32_t gid = 0;
  uint32_t mode = 0600;

  friend bool operator==(const AccessDomain&, const AccessDomain&) = default;
};

class BlockAllocator;

// A range of a Segment; gives itself back to its allocator, which must outlive it. Move-only.
class Block {
 public:
  Block() = default;  // no bytes, no Segment
  Block(BlockAllocator* allocator, std::shared_ptr<Segment> segment, int64_t offset_bytes, int64_t size_bytes)
      : allocator_(allocator),
        segment_(std::move(segment)),
        offset_bytes_(offset_bytes),
        size_bytes_(size_bytes) {}
  Block(Block&& other) noexcept { *this = std::move(other); }
  Block& operator=(Block&& other) noexcept;
  ~Block();

  const std::shared_ptr<Segment>& segment() const { return segment_; }  // null where size_bytes() is 0
  int64_t offset_bytes() const { return offset_bytes_; }                // a multiple of kHostAlignmentBytes
  int64_t size_bytes() const { return size_bytes_; }                    // as asked

 private:
  BlockAllocator* allocator_ = nullptr;
  std::shared_ptr<Segment> segment_;
  int64_t offset_bytes_ = 0;
  int64_t size_bytes_ = 0;
};

struct AllocateRequest {
  int64_t size_bytes = 0;  // 0: a Block without a Segment
  AccessDomain domain;
  CancelFn cancelled;
};

// An interface. Thread-safe.
class BlockAllocator {
 public:
  virtual ~BlockAllocator() = default;

  // Zero-filled bytes at an offset that is a multiple of kHostAlignmentBytes. Blocks while memory is
  // reserved.
  // kInvalidArgument    a negative size
  // kResourceExhausted  capacity, the machine, or the source is short: asked and free; nothing is charged or
  //                     left
  // kCancelled          `cancelled` said so
  virtual StatusOr<Block> Allocate(const AllocateRequest& request) = 0;

  // Bytes charged to the capacity: live Blocks, rounded to pages.
  virtual int64_t reserved_bytes() const = 0;

 protected:
  friend class Block;
  // Takes a Block's bytes back. May take as long as Segment::Retire. Not called for Blocks without a Segment.
  virtual void Free(std::shared_ptr<Segment> segment, int64_t offset_bytes, int64_t size_bytes) = 0;
};

// Gives each Block a Segment of its own, retired with it.
class SegmentPerStorage : public BlockAllocator {
 public:
  // `epoch` is the broker run's: Segment ids are {epoch, 1}, {epoch, 2}, ... `source`, `budget` and
  // `headroom` (may be null) outlive the allocator. `on_retire` (may be empty) is told before the memory
  // goes, on the thread that drops the Block.
  SegmentPerStorage(uint64_t epoch, SegmentSource* source, Budget* budget, Headroom* headroom,
                    std::function<void(SegmentId)> on_retire);

  StatusOr<Block> Allocate(const AllocateRequest& request) override;
  int64_t reserved_bytes() const override { return budget_->used_bytes(); }

  // From now on a Block's end leaves its bytes to those who have them mapped (Segment::Leave). For the broker's end.
  void LeaveBytes() { leaving_ = true; }

 private:
  void Free(std::shared_ptr<Segment> segment, int64_t offset_bytes, int64_t size_bytes) override;

  const uint64_t epoch_;
  SegmentSource* const source_;
  Budget* const budget_;
  Headroom* const headroom_;
  const std::function<void(SegmentId)> on_retire_;
  std::atomic<uint64_t> next_serial_{1};
  std::atomic<bool> leaving_{false};
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_ALLOCATOR_H_
