#include "tensorbroker/files/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

namespace tensorbroker::internal {

Status FileError(std::string_view call, const std::string& path, int error) {
  const std::string message = fmt::format("{} {}: {}", call, path, std::generic_category().message(error));
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return NotFoundError(message);
    case EACCES:
    case EPERM:
    case EROFS:
      return PermissionDeniedError(message);
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return ResourceExhaustedError(message);
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return InvalidArgumentError(message);
    default:
      return UnavailableError(message);
  }
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

StatusOr<size_t> File::Read(std::span<std::byte> bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd_, bytes.data() + done, bytes.size() - done);
    if (got == 0) break;
    if (got < 0) {
      if (errno == EINTR) continue;
      return FileError("read", path, errno);
    }
    done += static_cast<size_t>(got);
  }
  return done;
}

Status File::Write(std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t put = ::write(fd_, bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      return FileError("write", path, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return OkStatus();
}

Status File::Close(const std::string& path) {
  const int fd = std::exchange(fd_, -1);
  // On Linux the descriptor is closed even where close reports EINTR.
  if (::close(fd) != 0 && errno != EINTR) return FileError("close", path, errno);
  return OkStatus();
}

}  // namespace tensorbroker::internal
