// A file descriptor with an owner, and errno as a Status.
//
// Each descriptor in the project is close-on-exec: what an exec'ed child inherits must never be a Storage.
#ifndef TENSORBROKER_BASE_FD_H_
#define TENSORBROKER_BASE_FD_H_

#include <string_view>
#include <utility>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

// Owns a descriptor and closes it. Move-only; not thread-safe (but for const calls).
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  ~Fd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Gives the descriptor up without closing it.
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  // Closes what it owns and takes `fd`. errno is kept.
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// A second, close-on-exec descriptor for the same open file.
// kResourceExhausted   the process has no descriptor left
// kFailedPrecondition  `fd` is not open
StatusOr<Fd> Dup(int fd);

// "`what`: No such file or directory", with the code that fits `err`:
// kNotFound ENOENT ENOTDIR ESRCH; kPermissionDenied EACCES EPERM EROFS ELOOP; kAlreadyExists EEXIST
// EADDRINUSE; kResourceExhausted ENOSPC ENOMEM EMFILE ENFILE EDQUOT EFBIG ENOBUFS; kUnavailable ECONNREFUSED
// ECONNRESET EPIPE ENOTCONN EAGAIN EIO; kDeadlineExceeded ETIMEDOUT; kInvalidArgument EINVAL ENAMETOOLONG
// EOVERFLOW EISDIR; kFailedPrecondition EBADF ENODEV ENXIO EBUSY ETXTBSY; kUnimplemented ENOSYS EOPNOTSUPP;
// kInternal all others.
// For EMFILE and ENFILE the text names the limit and how to raise it.
Status ErrnoStatus(int err, std::string_view what);

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_FD_H_
