#include "tensorbroker/storage/file_source.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "tensorbroker/base/log.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/ipc/directory.h"
#include "tensorbroker/storage/huge_pages.h"
#include "tensorbroker/storage/reserve.h"
#include "tensorbroker/storage/round_up.h"

namespace tensorbroker {

namespace {

constexpr char kLockName[] = "lock";
constexpr time_t kStartSeconds = 10;  // at most, from a lock's file to the lock
constexpr uint64_t kTmpfsMagic = 0x01021994;
constexpr uint64_t kHugetlbfsMagic = 0x958458f6;
constexpr std::string_view kRemoveIpc =
    "the file was removed behind the broker's back: logind's RemoveIPC does that at a user's last logout; "
    "use `loginctl "
    "enable-linger`, a system user, or --memory=memfd";

}  // namespace

// The directory and its lock. Shared by the source and its Segments; the last one removes both.
class InstanceDirectory {
 public:
  static StatusOr<std::shared_ptr<InstanceDirectory>> Open(const std::string& path) {
    // A predecessor's clean end may remove the directory between our two steps: then the next try makes it
    // anew.
    for (int attempt = 0;; ++attempt) {
      TB_ASSIGN_OR_RETURN(Fd fd, OpenPrivateDirectory(path, 0700, Create::kYes));
      StatusOr<LockFile> lock = LockFile::Acquire(fd, kLockName);
      if (lock.ok()) return std::make_shared<InstanceDirectory>(path, std::move(fd), *std::move(lock));
      if (lock.status().code() != StatusCode::kNotFound || attempt == 3) {
        return Annotate(lock.status(), fmt::format("use {}", path));
      }
    }
  }

  InstanceDirectory(std::string path, Fd fd, LockFile lock)
      : path_(std::move(path)), fd_(std::move(fd)), lock_(std::move(lock)) {}

  ~InstanceDirectory() {
    if (IsGone()) return;  // what has the name now is not ours
    unlinkat(fd_.get(), kLockName, 0);
    rmdir(path_.c_str());  // stays where someone left something in it
  }

  // The directory of an embedded broker that has died; null where it lives, or may be about to.
  static std::unique_ptr<InstanceDirectory> OfDeadEmbedded(const std::string& path) {
    StatusOr<Fd> fd = OpenPrivateDirectory(path, 0700, Create::kNo);
    struct stat info {};
    if (!fd.ok() || fstatat(fd->get(), kLockName, &info, AT_SYMLINK_NOFOLLOW) != 0) return nullptr;
    // A broker makes its lock's file, locks it and writes its pid, in this order.
    if (info.st_size == 0 && time(nullptr) - info.st_mtime < kStartSeconds) return nullptr;
    StatusOr<LockFile> lock = LockFile::Acquire(*fd, kLockName);
    if (!lock.ok()) return nullptr;
    return std::make_unique<InstanceDirectory>(path, *std::move(fd), *std::move(lock));
  }

  int fd() const { return fd_.get(); }
  bool IsGone() const {
    struct stat info {};
    return fstat(fd_.get(), &info) < 0 || info.st_nlink == 0;
  }

 private:
  const std::string path_;
  const Fd fd_;
  const LockFile lock_;
};

namespace {

// Removes the files of our own naming form.
StatusOr<SweepResult> RemoveSegments(int directory, const std::string& place) {
  Fd copy(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy.valid()) return ErrnoStatus(errno, fmt::format("look into {}", place));
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(fdopendir(copy.get()), &closedir);
  if (entries == nullptr) return ErrnoStatus(errno, fmt::format("look into {}", place));
  (void)copy.release();  // `entries` closes it
  SweepResult result;
  while (const dirent* entry = readdir(entries.get())) {
    SegmentId id;
    struct stat info {};
    if (!ParseId(entry->d_name, &id).ok() || ToString(id) != entry->d_name) continue;
    if (fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) < 0) continue;
    if (!S_ISREG(info.st_mode) || info.st_uid != geteuid()) continue;
    // Unlinked, not punched: a client of the dead broker may still read it.
    if (unlinkat(directory, entry->d_name, 0) < 0) continue;
    ++result.files;
    result.bytes += static_cast<int64_t>(info.st_blocks) * 512;
  }
  return result;
}

// What killed embedded brokers of this uid left beside `place`: nobody else would ever remove it.
void SweepDeadEmbedded(const std::string& place) {
  const std::string parent = place.substr(0, place.rfind('/'));
  const std::string prefix = fmt::format("tensorbroker-{}-{}", geteuid(), kEmbeddedInstance);
  const std::unique_ptr<DIR, int (*)(DIR*)> entries(opendir(parent.c_str()), &closedir);
  while (const dirent* entry = entries == nullptr ? nullptr : readdir(entries.get())) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    const std::string path = fmt::format("{}/{}", parent, entry->d_name);
    if (path == place) continue;
    const auto dead = InstanceDirectory::OfDeadEmbedded(path);
    if (dead == nullptr) continue;
    const StatusOr<SweepResult> swept = RemoveSegments(dead->fd(), path);
    if (!swept.ok() || swept->files == 0) continue;
    Log(LogLevel::kWarning, "swept",
        {{"files", swept->files}, {"bytes", swept->bytes}, {"why", "an embedded broker died"}});
  }
}

class FileSegment : public Segment {
 public:
  FileSegment(SegmentInfo info, std::shared_ptr<InstanceDirectory> directory)
      : info_(info), directory_(std::move(directory)) {}
  ~FileSegment() override { FileSegment::Retire(); }

  const SegmentInfo& info() const override { return info_; }

  StatusOr<Fd> OpenForGrant(Access access) override {
    // Ids are never used twice, so the name leads to this Segment's file or to none.
    Fd fd(openat(directory_->fd(), ToString(info_.id).c_str(),
                 (access == Access::kReadOnly ? O_RDONLY : O_RDWR) | O_NOFOLLOW | O_CLOEXEC));
    const int err = fd.valid() ? 0 : errno;
    if (retired_) return FailedPreconditionError("grant a Segment: it is retired");
    if (err == ENOENT) return DataLossError(fmt::format("grant a Segment: {}", kRemoveIpc));
    if (err != 0) return ErrnoStatus(err, "grant a Segment");
    return fd;
  }

  void Retire() override {
    if (retired_.exchange(true)) return;
    const std::string name = ToString(info_.id);
    if (const Fd fd(openat(directory_->fd(), name.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)); fd.valid()) {
      PunchFile(fd.get(), info_.size_bytes);
    }
    unlinkat(directory_->fd(), name.c_str(), 0);
  }

  void Leave() override {
    if (!retired_.exchange(true)) unlinkat(directory_->fd(), ToString(info_.id).c_str(), 0);
  }

 private:
  const SegmentInfo info_;
  const std::shared_ptr<InstanceDirectory> directory_;
  std::atomic<bool> retired_{false};
};

}  // namespace

FileSource::FileSource(SourceInfo info, bool advise_huge, std::shared_ptr<InstanceDirectory> directory)
    : info_(std::move(info)), advise_huge_(advise_huge), directory_(std::move(directory)) {}

StatusOr<std::unique_ptr<SegmentSource>> FileSource::Open(SourceKind kind, const std::string& parent,
                                                          const std::string& place) {
  TB_ASSIGN_OR_RETURN(const FilesystemSpace space, GetFilesystemSpace(parent));
  const uint64_t wanted = kind == SourceKind::kHugetlbfs ? kHugetlbfsMagic : kTmpfsMagic;
  if (space.type != wanted) {
    return InvalidArgumentError(
        fmt::format("use {} for --memory={}: it is on no {}, and tensors never go to a disk", parent,
                    Name(kind), kind == SourceKind::kHugetlbfs ? "hugetlbfs" : "tmpfs"));
  }
  SourceInfo info;
  info.kind = kind;
  info.place = place;
  bool advise_huge = false;
  if (kind == SourceKind::kHugetlbfs) {
    info.page_bytes = space.block_bytes;
    TB_RETURN_IF_ERROR(HugetlbPool(info.page_bytes).status());
    info.huge_pages = fmt::format("all ({} hugetlbfs pages)", HumanBytes(info.page_bytes));
  } else {
    info.page_bytes = PageSize();
    const HugePagePolicy policy = TmpfsHugePages(parent);
    advise_huge = policy.on_advice;
    info.huge_pages = policy.text;
  }
  TB_ASSIGN_OR_RETURN(std::shared_ptr<InstanceDirectory> directory, InstanceDirectory::Open(place));
  return std::unique_ptr<SegmentSource>(new FileSource(std::move(info), advise_huge, std::move(directory)));
}

StatusOr<std::shared_ptr<Segment>> FileSource::Claim(SegmentId id, int64_t size_bytes,
                                                     const CancelFn& cancelled) {
  TB_ASSIGN_OR_RETURN(const int64_t whole_bytes, SegmentBytes(size_bytes, info_.page_bytes));
  // Chunk by chunk a size that cannot fit would fill the filesystem before it failed, and others would fail with it.
  if (const FilesystemSpace space = Space(); space.total_bytes > 0 && whole_bytes > space.free_bytes) {
    return ExplainShortage(ResourceExhaustedError("it cannot fit"), size_bytes);
  }
  const std::string name = ToString(id);
  const auto make_file = [&name](const InstanceDirectory& where) {
    return Fd(openat(where.fd(), name.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  };
  std::shared_ptr<InstanceDirectory> where = directory();
  Fd fd = make_file(*where);
  if (!fd.valid() && errno == ENOENT) {
    TB_ASSIGN_OR_RETURN(where, Renew(where));
    fd = make_file(*where);
  }
  if (!fd.valid()) {
    const int err = errno;
    const Status status = ErrnoStatus(err, fmt::format("the broker makes a Segment of {} bytes", size_bytes));
    // Descriptors are short, not memory: the text says so, and how to have more.
    return err == EMFILE || err == ENFILE ? status : ExplainShortage(status, size_bytes);
  }
  // From here on the Segment owns the file: on an error its end removes it.
  const StatusOr<Reservation> reserved = fchmod(fd.get(), 0600) < 0
                                             ? ErrnoStatus(errno, "make a Segment private")
                                             : ReserveFile(fd.get(), whole_bytes, advise_huge_, cancelled);
  const bool huge = info_.kind == SourceKind::kHugetlbfs || (reserved.ok() && reserved->huge_pages);
  auto segment =
      std::make_shared<FileSegment>(SegmentInfo{id, whole_bytes, info_.kind, huge}, std::move(where));
  if (!reserved.ok()) {
    segment.reset();
    return ExplainShortage(reserved.status(), size_bytes);
  }
  return segment;
}

// ENOSPC as the user's next step: how much is free, of what, and how to have more. No path: this goes to
// clients.
Status FileSource::ExplainShortage(const Status& status, int64_t size_bytes) const {
  if (status.code() != StatusCode::kResourceExhausted) return status;
  const FilesystemSpace space = Space();
  if (info_.kind == SourceKind::kHugetlbfs) {
    return ResourceExhaustedError(
        fmt::format("reserve {} bytes: {} of {} bytes of huge pages are free: set more aside with `sysctl -w "
                    "vm.nr_hugepages=N`, or use "
                    "--memory=memfd ({})",
                    size_bytes, space.free_bytes, space.total_bytes, Message(status)));
  }
  if (space.total_bytes > 0 && space.free_inodes == 0) {
    return ResourceExhaustedError(fmt::format(
        "reserve {} bytes: the tmpfs has no inode left: raise its nr_inodes, or use --memory=memfd ({})",
        size_bytes, Message(status)));
  }
  return ResourceExhaustedError(
      fmt::format("reserve {} bytes: {} of the tmpfs's {} bytes are free: make it larger (mount -o "
                  "remount,size=; in a container "
                  "--shm-size=), or use --memory=memfd ({})",
                  size_bytes, space.free_bytes, space.total_bytes, Message(status)));
}

FilesystemSpace FileSource::Space() const {
  StatusOr<FilesystemSpace> space = info_.kind == SourceKind::kHugetlbfs
                                        ? HugetlbPool(info_.page_bytes)
                                        : GetFilesystemSpace(directory()->fd());
  return space.ok() ? *space : FilesystemSpace{};
}

std::string FileSource::Problem() const {
  const MutexLock lock(mutex_);
  return renewed_ || directory_->IsGone() ? fmt::format("the Segments' directory has gone; {}", kRemoveIpc)
                                          : "";
}

StatusOr<SweepResult> FileSource::Sweep() {
  const std::shared_ptr<InstanceDirectory> where = directory();
  SweepDeadEmbedded(info_.place);
  return RemoveSegments(where->fd(), info_.place);
}

std::shared_ptr<InstanceDirectory> FileSource::directory() const {
  const MutexLock lock(mutex_);
  return directory_;
}

StatusOr<std::shared_ptr<InstanceDirectory>> FileSource::Renew(
    const std::shared_ptr<InstanceDirectory>& gone) {
  const MutexLock lock(mutex_);
  if (directory_ != gone) return directory_;
  Log(LogLevel::kWarning, "segments_directory_gone", {{"directory", info_.place}, {"cause", kRemoveIpc}});
  TB_ASSIGN_OR_RETURN(directory_, InstanceDirectory::Open(info_.place));
  renewed_ = true;
  return directory_;
}

}  // namespace tensorbroker
