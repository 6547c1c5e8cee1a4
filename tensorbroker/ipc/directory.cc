#include "tensorbroker/ipc/directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>

namespace tensorbroker {
namespace {

// Why `path` could not be opened as a directory: open(2) says ENOTDIR or ELOOP for a link as for a file.
Status ExplainOpen(int err, const std::string& subject, const std::string& path) {
  struct stat info {};
  if ((err == ENOTDIR || err == ELOOP) && lstat(path.c_str(), &info) == 0) {
    if (S_ISLNK(info.st_mode)) {
      return PermissionDeniedError(
          fmt::format("{}: a symbolic link of uid {} stands in its place, and is not followed: remove it",
                      subject, info.st_uid));
    }
    if (!S_ISDIR(info.st_mode)) {
      return FailedPreconditionError(
          fmt::format("{}: what stands there is no directory: move it away", subject));
    }
  }
  return ErrnoStatus(err, subject);
}

// A umask may leave our own new directory without even our own rights. errno is EACCES where it does nothing.
bool MakeReadable(const Fd& directory) {
  struct stat info {};
  const bool done = directory.valid() && fstat(directory.get(), &info) == 0 && info.st_uid == geteuid() &&
                    chmod(fmt::format("/proc/self/fd/{}", directory.get()).c_str(), 0700) == 0;
  if (!done) errno = EACCES;
  return done;
}

}  // namespace

StatusOr<Fd> OpenPrivateDirectory(const std::string& path, mode_t mode, Create create) {
  const std::string subject = fmt::format("open the directory {}", path);
  // Narrow at first (mkdir applies the umask), then exactly `mode` below, through the descriptor.
  if (create == Create::kYes && mkdir(path.c_str(), 0700) < 0 && errno != EEXIST) {
    return ErrnoStatus(errno, fmt::format("make the directory {}", path));
  }
  constexpr int kFlags = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  Fd fd(open(path.c_str(), O_RDONLY | kFlags));
  if (!fd.valid() && errno == EACCES && MakeReadable(Fd(open(path.c_str(), O_PATH | kFlags)))) {
    fd.reset(open(path.c_str(), O_RDONLY | kFlags));
  }
  if (!fd.valid()) return ExplainOpen(errno, subject, path);
  struct stat info {};
  if (fstat(fd.get(), &info) < 0) return ErrnoStatus(errno, subject);
  if (info.st_uid != geteuid()) {
    return PermissionDeniedError(
        fmt::format("{}: it belongs to uid {}, not to uid {}, so what is in it cannot be trusted: remove it, "
                    "or choose another place",
                    subject, info.st_uid, geteuid()));
  }
  if ((info.st_mode & 07777) != mode && fchmod(fd.get(), mode) < 0) {
    return ErrnoStatus(errno, fmt::format("{}: set its mode to {:04o}", subject, mode));
  }
  return fd;
}

StatusOr<LockFile> LockFile::Acquire(const Fd& directory, const std::string& name) {
  const std::string subject = fmt::format("take the lock {}", name);
  while (true) {
    Fd fd(openat(directory.get(), name.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!fd.valid()) return ErrnoStatus(errno, subject);
    struct stat info {};
    if (fstat(fd.get(), &info) < 0) return ErrnoStatus(errno, subject);
    if (info.st_uid != geteuid() || !S_ISREG(info.st_mode)) {
      return PermissionDeniedError(
          fmt::format("{}: a file of uid {} stands there: remove it", subject, info.st_uid));
    }
    if (fchmod(fd.get(), 0600) < 0) return ErrnoStatus(errno, subject);
    int result;
    do {
      result = flock(fd.get(), LOCK_EX | LOCK_NB);
    } while (result < 0 && errno == EINTR);
    if (result < 0) {
      if (errno != EWOULDBLOCK) return ErrnoStatus(errno, subject);
      char text[32] = "";
      const ssize_t size = pread(fd.get(), text, sizeof(text), 0);
      pid_t pid = 0;
      if (size > 0) std::from_chars(text, text + size, pid);
      return AlreadyExistsError(pid > 0 ? fmt::format("already running, pid {}", pid) : "already running");
    }
    // Its last holder may have removed the file since we opened it: then this lock guards a name that others
    // make anew.
    struct stat named {};
    if (fstatat(directory.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) < 0) {
      if (errno == ENOENT) continue;
      return ErrnoStatus(errno, subject);
    }
    if (named.st_dev != info.st_dev || named.st_ino != info.st_ino) continue;
    // For people only: hugetlbfs has no write(2), and the lock holds without it.
    const std::string pid = fmt::format("{}\n", getpid());
    (void)!ftruncate(fd.get(), 0);
    (void)!pwrite(fd.get(), pid.data(), pid.size(), 0);
    return LockFile(std::move(fd));
  }
}

}  // namespace tensorbroker
