#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/files/file.h"
#include "tensorbroker/files/npy.h"
#include "tensorbroker/tensor/copy.h"
#include "tensorbroker/tensor/views.h"

namespace tensorbroker {
namespace {

constexpr int64_t kChunkBytes = 4 << 20;

Status IsThere(const std::string& path) {
  return AlreadyExistsError(fmt::format("{} is there already", path));
}

std::string DirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A file that is to be at `path` once it is written. Where the file system can, it has no name before, so that nothing is
// left of it however this process ends; else it is beside `path`, and its name goes with this object.
class NewFile {
 public:
  static StatusOr<NewFile> Make(const std::string& path, const WriteOptions& options) {
    NewFile made(path, options);
    // The umask settles the mode, as for any file a program makes.
    made.fd_.reset(::open(DirectoryOf(path).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666));
    if (made.fd_.valid() && ::access(made.ProcPath().c_str(), F_OK) == 0) return made;
    made.TakeName();
    made.fd_.reset(::open(made.name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (made.fd_.valid()) return made;
    const int err = errno;
    made.DropName();
    return internal::FileError("create", path, err);
  }

  NewFile(NewFile&& other) noexcept
      : path_(other.path_),
        options_(other.options_),
        fd_(std::move(other.fd_)),
        name_(std::exchange(other.name_, {})) {}
  NewFile& operator=(NewFile&&) = delete;
  ~NewFile() {
    if (name_.empty()) return;
    ::unlink(name_.c_str());
    DropName();
  }

  int fd() const { return fd_.get(); }

  // From now on it is at `path`, with all its bytes at one instant.
  // kAlreadyExists  OldFile::kKeep: something is there
  Status MoveIntoPlace() {
    if (name_.empty() && Link(path_) == 0) return OkStatus();
    if (name_.empty() && errno != EEXIST) return internal::FileError("make", path_, errno);
    if (options_.old_file == OldFile::kKeep) return NameUnlessThere();
    // Nothing replaces a file by one without a name.
    if (name_.empty()) {
      TakeName();
      if (Link(name_) != 0) {
        const int err = errno;
        DropName();
        return internal::FileError("make", name_, err);
      }
    }
    if (::rename(name_.c_str(), path_.c_str()) != 0) return internal::FileError("rename to", path_, errno);
    DropName();
    return OkStatus();
  }

 private:
  NewFile(const std::string& path, const WriteOptions& options) : path_(path), options_(options) {}

  std::string ProcPath() const { return fmt::format("/proc/self/fd/{}", fd_.get()); }
  int Link(const std::string& to) const {
    return ::linkat(AT_FDCWD, ProcPath().c_str(), AT_FDCWD, to.c_str(), AT_SYMLINK_FOLLOW);
  }
  Status NameUnlessThere() {
    if (name_.empty()) return IsThere(path_);
    if (::renameat2(AT_FDCWD, name_.c_str(), AT_FDCWD, path_.c_str(), RENAME_NOREPLACE) == 0) {
      DropName();
      return OkStatus();
    }
    // A file system without that flag (NFS) has links; the name beside goes with this object.
    if (errno == EINVAL && ::link(name_.c_str(), path_.c_str()) == 0) return OkStatus();
    return errno == EEXIST ? IsThere(path_) : internal::FileError("rename to", path_, errno);
  }
  void TakeName() {
    name_ = fmt::format("{}.{:016x}.tmp", path_, RandomNonZero64());
    if (options_.temporary) options_.temporary(name_);
  }
  void DropName() {
    name_.clear();
    if (options_.temporary) options_.temporary(name_);
  }

  const std::string path_;
  const WriteOptions& options_;
  Fd fd_;
  std::string name_;  // beside path_; empty: it has none
};

// Writes a view's elements in row-major order, with at most one chunk of them copied at a time.
class ElementWriter {
 public:
  ElementWriter(internal::File& file, const std::string& path, std::span<const std::byte> storage,
                int64_t total, const FileProgress& progress)
      : file_(file), path_(path), storage_(storage), total_(total), progress_(progress) {}

  Status Write(const Header& header) {
    const int64_t bytes = header.nbytes();
    if (bytes == 0) return OkStatus();
    if (header.is_contiguous()) return WriteDense(header.offset_bytes(), bytes);
    if (bytes <= kChunkBytes) {
      buffer_.resize(static_cast<size_t>(bytes));
      TB_ASSIGN_OR_RETURN(const Header dense, Header::Contiguous(header.shape(), header.dtype()));
      TB_RETURN_IF_ERROR(CopyStrided(dense, buffer_, header, storage_));
      return Put(buffer_);
    }
    // As many steps of the first dimension as fill a chunk, or one of them in parts.
    int dim = 0;
    while (header.size(dim) == 1) ++dim;
    const int64_t steps = std::max<int64_t>(1, kChunkBytes / (bytes / header.size(dim)));
    for (int64_t i = 0; i < header.size(dim); i += steps) {
      TB_ASSIGN_OR_RETURN(const Header part,
                          views::Narrow(header, dim, i, std::min(steps, header.size(dim) - i)));
      TB_RETURN_IF_ERROR(Write(part));
    }
    return OkStatus();
  }

 private:
  Status WriteDense(int64_t offset, int64_t bytes) {
    for (int64_t i = 0; i < bytes; i += kChunkBytes) {
      TB_RETURN_IF_ERROR(Put(storage_.subspan(static_cast<size_t>(offset + i),
                                              static_cast<size_t>(std::min(kChunkBytes, bytes - i)))));
    }
    return OkStatus();
  }

  Status Put(std::span<const std::byte> bytes) {
    TB_RETURN_IF_ERROR(file_.Write(bytes, path_));
    done_ += static_cast<int64_t>(bytes.size());
    if (progress_ && !progress_(done_, total_))
      return CancelledError(fmt::format("{}: writing was stopped", path_));
    return OkStatus();
  }

  internal::File& file_;
  const std::string& path_;
  std::span<const std::byte> storage_;
  const int64_t total_;
  const FileProgress& progress_;
  int64_t done_ = 0;
  std::vector<std::byte> buffer_;
};

Status WriteTo(internal::File& file, const std::string& path, const Header& header,
               std::span<const std::byte> storage, const FileProgress& progress) {
  Dims backwards;
  for (int i = header.rank(); i-- > 0;) backwards.push_back(i);
  TB_ASSIGN_OR_RETURN(const Header reversed, views::Permute(header, backwards));
  const bool fortran = !header.is_contiguous() && reversed.is_contiguous();
  const std::string prefix = FormatNpyHeader(header, fortran);
  TB_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(prefix)), path));
  TB_RETURN_IF_ERROR(
      ElementWriter(file, path, storage, header.nbytes(), progress).Write(fortran ? reversed : header));
  return file.Close(path);
}

constexpr int kMaxLinks = 40;  // as the kernel follows

struct Place {
  std::string path;  // behind all links: what is made or replaced
  Fd direct;         // valid: write here instead
};

// The number N where `path`, which is no link but perhaps one of /proc's, is descriptor N of this process.
std::optional<int> OwnDescriptor(const std::string& path) {
  char directory[PATH_MAX];
  if (::realpath(DirectoryOf(path).c_str(), directory) == nullptr) return std::nullopt;
  const std::string_view place = directory;
  if (!place.starts_with(fmt::format("/proc/{}/", ::getpid())) || !place.ends_with("/fd"))
    return std::nullopt;
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  int fd = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), fd);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return fd;
}

bool IsOnProc(const std::string& path) {
  struct statfs info = {};
  return ::statfs(DirectoryOf(path).c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

StatusOr<Place> OpenDirect(const std::string& path, int flags) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | flags));
  if (!fd.valid()) return internal::FileError("open", path, errno);
  return Place{path, std::move(fd)};
}

// Where a write to `given` goes. A link is never replaced: its target is. Written to directly are what is no regular file
// (a pipe, a terminal, /dev/null) and an open file that /proc leads to, such as /dev/stdout.
StatusOr<Place> Resolve(const std::string& given) {
  std::string path = given;
  for (int links = 0; links <= kMaxLinks; ++links) {
    struct stat info = {};
    if (::lstat(path.c_str(), &info) != 0) return Place{path, Fd()};  // to be made, or the error comes then
    if (!S_ISLNK(info.st_mode)) {
      if (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) return Place{path, Fd()};
      return OpenDirect(path, 0);
    }
    if (const std::optional<int> own = OwnDescriptor(path)) {
      StatusOr<Fd> fd = Dup(*own);  // so that it goes on where others have written before
      if (!fd.ok()) return Annotate(fd.status(), "open " + given);
      return Place{path, *std::move(fd)};
    }
    if (IsOnProc(path) && ::stat(path.c_str(), &info) == 0 && !S_ISDIR(info.st_mode))
      return OpenDirect(path, O_TRUNC);
    char target[PATH_MAX];
    const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
    if (size < 0) return internal::FileError("read the link", path, errno);
    const std::string_view next(target, static_cast<size_t>(size));
    path = next.starts_with('/') ? std::string(next) : fmt::format("{}/{}", DirectoryOf(path), next);
  }
  return internal::FileError("write", given, ELOOP);
}

bool IsDirectory(const std::string& path) {
  struct stat status = {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

// A dangling link is there too.
bool Exists(const std::string& path) {
  struct stat status = {};
  return ::lstat(path.c_str(), &status) == 0;
}

}  // namespace

Status WriteNpy(const std::string& path, const Header& header, std::span<const std::byte> storage,
                const WriteOptions& options) {
  if (header.device().type != DeviceType::kCpu) {
    return FailedPreconditionError(fmt::format("write {}: the tensor is on {}; copy it to the host first",
                                               path, ToString(header.device())));
  }
  if (Status fits = CheckFits(header, static_cast<int64_t>(storage.size())); !fits.ok())
    return Annotate(fits, path);
  if (path.empty()) return InvalidArgumentError("write: no file is named");
  // Before a long write; MoveIntoPlace decides.
  if (IsDirectory(path) || path.ends_with('/'))
    return InvalidArgumentError(fmt::format("write {}: that is a directory: name a file in it", path));
  TB_ASSIGN_OR_RETURN(Place place, Resolve(path));
  if (place.direct.valid()) {
    internal::File file(std::move(place.direct));
    return WriteTo(file, path, header, storage, options.progress);
  }
  if (options.old_file == OldFile::kKeep && Exists(path)) return IsThere(path);
  TB_ASSIGN_OR_RETURN(NewFile made, NewFile::Make(place.path, options));
  // Closed before the file is in its place: some file systems report a full disk only then.
  TB_ASSIGN_OR_RETURN(Fd fd, Dup(made.fd()));
  internal::File file(std::move(fd));
  TB_RETURN_IF_ERROR(WriteTo(file, path, header, storage, options.progress));
  return made.MoveIntoPlace();
}

}  // namespace tensorbroker
