// A file descriptor for the formats of this folder: whole reads and writes, and errno as a Status that names the path.
#ifndef TENSORBROKER_FILES_FILE_H_
#define TENSORBROKER_FILES_FILE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::internal {

// Owns one descriptor (close-on-exec). Move-only; not thread-safe.
class File {
 public:
  explicit File(Fd fd) : fd_(std::move(fd)) {}

  int fd() const { return fd_.get(); }

  // Reads until `bytes` is full or the file ends; gives the count. Retries EINTR.
  StatusOr<size_t> Read(std::span<std::byte> bytes, const std::string& path);
  // Writes all of it.
  Status Write(std::span<const std::byte> bytes, const std::string& path);
  // Closes; some file systems report a full disk only now.
  Status Close(const std::string& path);

 private:
  Fd fd_;
};

// "`call` `path`: errno's text", with ErrnoStatus's codes.
Status FileError(std::string_view call, const std::string& path, int error);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_FILES_FILE_H_
