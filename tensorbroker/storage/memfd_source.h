// Segments that have no name: sealed memfds. Nothing is left when the broker and its clients are gone, and
// the size of /dev/shm does not bind them.
#ifndef TENSORBROKER_STORAGE_MEMFD_SOURCE_H_
#define TENSORBROKER_STORAGE_MEMFD_SOURCE_H_

#include <memory>
#include <string>

#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {

// Each Segment holds one descriptor for its life (a memfd has no name to open it again by). Sealed against
// shrinking, growing and further seals: whoever may write the bytes cannot make a reader's access SIGBUS by
// truncating.
class MemfdSource : public SegmentSource {
 public:
  MemfdSource();

  const SourceInfo& info() const override { return info_; }
  StatusOr<std::shared_ptr<Segment>> Claim(SegmentId id, int64_t size_bytes,
                                           const CancelFn& cancelled) override;
  FilesystemSpace Space() const override { return {}; }
  std::string Problem() const override { return ""; }
  StatusOr<SweepResult> Sweep() override { return SweepResult{}; }

 private:
  SourceInfo info_;
  bool advise_huge_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_MEMFD_SOURCE_H_
