// Segments of plain heap memory, for tests that need no OS: nothing of them can be shared.
#ifndef TENSORBROKER_STORAGE_HEAP_SOURCE_H_
#define TENSORBROKER_STORAGE_HEAP_SOURCE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {

// Has `limit_bytes` to give; Space() tells them as a filesystem would. Its Segments must not outlive it
// (unlike others').
class HeapSource : public SegmentSource {
 public:
  explicit HeapSource(int64_t limit_bytes = int64_t{1} << 40);

  const SourceInfo& info() const override { return info_; }
  StatusOr<std::shared_ptr<Segment>> Claim(SegmentId id, int64_t size_bytes,
                                           const CancelFn& cancelled) override;
  FilesystemSpace Space() const override;
  std::string Problem() const override { return ""; }
  StatusOr<SweepResult> Sweep() override { return SweepResult{}; }

  // The bytes of a Segment that a HeapSource gave; empty once it is retired.
  static std::span<std::byte> Bytes(Segment& segment);

 private:
  SourceInfo info_;
  const int64_t limit_bytes_;
  const std::shared_ptr<std::atomic<int64_t>> used_bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_HEAP_SOURCE_H_
