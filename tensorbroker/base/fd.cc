#include "tensorbroker/base/fd.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace tensorbroker {
namespace {

StatusCode CodeOf(int err) {
  switch (err) {
    case ENOENT:
    case ENOTDIR:
    case ESRCH:
      return StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
    case ELOOP:
      return StatusCode::kPermissionDenied;
    case EEXIST:
    case EADDRINUSE:
      return StatusCode::kAlreadyExists;
    case ENOSPC:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
    case EDQUOT:
    case EFBIG:
    case ENOBUFS:
      return StatusCode::kResourceExhausted;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case EAGAIN:
    case EIO:
      return StatusCode::kUnavailable;
    case ETIMEDOUT:
      return StatusCode::kDeadlineExceeded;
    case EINVAL:
    case ENAMETOOLONG:
    case EOVERFLOW:
    case EISDIR:
      return StatusCode::kInvalidArgument;
    case EBADF:
    case ENODEV:
    case ENXIO:
    case EBUSY:
    case ETXTBSY:
      return StatusCode::kFailedPrecondition;
    case ENOSYS:
    case EOPNOTSUPP:
      return StatusCode::kUnimplemented;
    default:
      return StatusCode::kInternal;
  }
}

// strerror_r has two forms; this takes whichever the C library gives.
[[maybe_unused]] const char* ErrorText(int result, const char* buffer) {
  return result == 0 ? buffer : "unknown error";
}
[[maybe_unused]] const char* ErrorText(const char* result, const char*) { return result; }

std::string Remedy(int err) {
  if (err == EMFILE) {
    rlimit limit{};
    getrlimit(RLIMIT_NOFILE, &limit);
    return fmt::format(
        "; this process may have {} descriptors open: raise it with `ulimit -n`, or LimitNOFILE= in a unit",
        limit.rlim_cur);
  }
  if (err == ENFILE) return "; the machine has no descriptor left: raise the sysctl fs.file-max";
  return "";
}

}  // namespace

void Fd::reset(int fd) {
  const int old = std::exchange(fd_, fd);
  if (old < 0 || old == fd) return;
  const int saved_errno = errno;
  close(old);  // on Linux the descriptor is gone even for EINTR: never again
  errno = saved_errno;
}

StatusOr<Fd> Dup(int fd) {
  const int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return ErrnoStatus(errno, "duplicate a descriptor");
  return Fd(copy);
}

Status ErrnoStatus(int err, std::string_view what) {
  char buffer[128] = "";
  const char* text = ErrorText(strerror_r(err, buffer, sizeof(buffer)), buffer);
  return MakeStatus(CodeOf(err), fmt::format("{}: {}{}", what, text, Remedy(err)));
}

}  // namespace tensorbroker
