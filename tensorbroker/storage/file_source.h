// Segments that are files in a private directory of a tmpfs or hugetlbfs: the next broker can find them.
#ifndef TENSORBROKER_STORAGE_FILE_SOURCE_H_
#define TENSORBROKER_STORAGE_FILE_SOURCE_H_

#include <memory>
#include <string>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {

class InstanceDirectory;

// A file a Segment, named by its id, mode 0600, in a directory of mode 0700 whose lock this source holds. Keeps
// no descriptor a Segment, and no LRU of them: a grant opens the file by name, 0.8 us against 0.3 us for a dup
// where a grant's round trip takes 13 us or more, and sees when the file has gone.
class FileSource : public SegmentSource {
 public:
  // `place` is the instance's directory itself; `parent` a directory on the filesystem. Errors as OpenSource.
  static StatusOr<std::unique_ptr<SegmentSource>> Open(SourceKind kind, const std::string& parent,
                                                       const std::string& place);

  const SourceInfo& info() const override { return info_; }
  StatusOr<std::shared_ptr<Segment>> Claim(SegmentId id, int64_t size_bytes,
                                           const CancelFn& cancelled) override;
  FilesystemSpace Space() const override;
  std::string Problem() const override;
  StatusOr<SweepResult> Sweep() override;

 private:
  FileSource(SourceInfo info, bool advise_huge, std::shared_ptr<InstanceDirectory> directory);
  std::shared_ptr<InstanceDirectory> directory() const;
  StatusOr<std::shared_ptr<InstanceDirectory>> Renew(const std::shared_ptr<InstanceDirectory>& gone);
  Status ExplainShortage(const Status& status, int64_t size_bytes) const;

  const SourceInfo info_;
  const bool advise_huge_;
  mutable Mutex mutex_;
  std::shared_ptr<InstanceDirectory> directory_ TB_GUARDED_BY(mutex_);
  bool renewed_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_FILE_SOURCE_H_
