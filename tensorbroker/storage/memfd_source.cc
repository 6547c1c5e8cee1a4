#include "tensorbroker/storage/memfd_source.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/storage/huge_pages.h"
#include "tensorbroker/storage/reserve.h"
#include "tensorbroker/storage/round_up.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U  // Linux 6.3; older headers lack it
#endif

namespace tensorbroker {
namespace {

constexpr int64_t kWorthACheckBytes = int64_t{64} << 20;

class MemfdSegment : public Segment {
 public:
  MemfdSegment(SegmentInfo info, Fd fd) : info_(info), fd_(std::move(fd)) {}
  ~MemfdSegment() override { MemfdSegment::Retire(); }

  const SegmentInfo& info() const override { return info_; }

  StatusOr<Fd> OpenForGrant(Access access) override {
    const MutexLock lock(mutex_);
    if (!fd_.valid()) return FailedPreconditionError("grant a Segment: it is retired");
    if (access == Access::kReadWrite) return Dup(fd_.get());
    // A new open file, which a dup would not be: read-only is a property of the opening.
    Fd fd(open(fmt::format("/proc/self/fd/{}", fd_.get()).c_str(), O_RDONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus(errno, "grant a Segment read-only");
    return fd;
  }

  void Retire() override {
    const MutexLock lock(mutex_);
    if (!fd_.valid()) return;
    PunchFile(fd_.get(), info_.size_bytes);
    fd_.reset();
  }

  void Leave() override {
    const MutexLock lock(mutex_);
    fd_.reset();
  }

 private:
  const SegmentInfo info_;
  Mutex mutex_;
  Fd fd_ TB_GUARDED_BY(mutex_);
};

// No filesystem bounds a memfd: a size past the machine's memory would end in an OOM kill. (The Headroom before a source
// also knows of cgroups and of what is being reserved; this is for sizes that cannot work at all.)
Status CheckMemory(int64_t size_bytes) {
  if (size_bytes < kWorthACheckBytes) return OkStatus();
  const StatusOr<int64_t> available = GetMemAvailable();
  if (!available.ok() || size_bytes <= *available) return OkStatus();
  return ResourceExhaustedError(
      fmt::format("reserve {} bytes: this machine has {} bytes available: free memory, or ask for less",
                  size_bytes, *available));
}

StatusOr<Fd> NewMemfd() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  Fd fd(memfd_create("tensorbroker", kFlags | MFD_NOEXEC_SEAL));
  if (!fd.valid() && errno == EINVAL) fd.reset(memfd_create("tensorbroker", kFlags));
  if (!fd.valid()) return ErrnoStatus(errno, "make a memfd");
  // A memfd is 0777 at first: whoever gets a read-only descriptor could open it again for writing through
  // /proc.
  if (fchmod(fd.get(), 0600) < 0) return ErrnoStatus(errno, "make a memfd private");
  return fd;
}

}  // namespace

MemfdSource::MemfdSource() {
  const HugePagePolicy policy = MemfdHugePages();
  advise_huge_ = policy.on_advice;
  info_.kind = SourceKind::kMemfd;
  info_.page_bytes = PageSize();
  info_.huge_pages = policy.text;
}

StatusOr<std::shared_ptr<Segment>> MemfdSource::Claim(SegmentId id, int64_t size_bytes,
                                                      const CancelFn& cancelled) {
  TB_ASSIGN_OR_RETURN(const int64_t whole_bytes, SegmentBytes(size_bytes, info_.page_bytes));
  TB_RETURN_IF_ERROR(CheckMemory(whole_bytes));
  TB_ASSIGN_OR_RETURN(Fd fd, NewMemfd());
  TB_ASSIGN_OR_RETURN(const Reservation reserved,
                      ReserveFile(fd.get(), whole_bytes, advise_huge_, cancelled));
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    return ErrnoStatus(errno, "seal a memfd");
  }
  const SegmentInfo info{id, whole_bytes, SourceKind::kMemfd, reserved.huge_pages};
  return std::make_shared<MemfdSegment>(info, std::move(fd));
}

}  // namespace tensorbroker
