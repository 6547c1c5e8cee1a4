#include "tensorbroker/files/file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>

namespace tensorbroker::internal {

Status FileError(std::string_view call, const std::string& path, int error) {
  return ErrnoStatus(error, fmt::format("{} {}", call, path));
}

StatusOr<size_t> File::Read(std::span<std::byte> bytes, const std::string& path) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::read(fd_.get(), bytes.data() + done, bytes.size() - done);
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
    const ssize_t put = ::write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0) {
      if (errno == EINTR) continue;
      return FileError("write", path, errno);
    }
    bytes = bytes.subspan(static_cast<size_t>(put));
  }
  return OkStatus();
}

Status File::Close(const std::string& path) {
  // On Linux the descriptor is closed even where close reports EINTR.
  if (::close(fd_.release()) != 0 && errno != EINTR) return FileError("close", path, errno);
  return OkStatus();
}

}  // namespace tensorbroker::internal
