// .npy files in and out of a Storage, chunk by chunk: no second copy of the data is made.
#ifndef TENSORBROKER_FILES_NPY_H_
#define TENSORBROKER_FILES_NPY_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/files/npy_header.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// Called after each chunk, with bytes done and in all; false stops the transfer.
using FileProgress = std::function<bool(int64_t done_bytes, int64_t total_bytes)>;

namespace internal {
class File;
}

// An open .npy file whose header has been read. Owns the descriptor. Move-only; not thread-safe.
//
//   TB_ASSIGN_OR_RETURN(NpyReader reader, NpyReader::Open(path));
//   ... make a Storage of reader.header().nbytes() bytes ...
//   TB_RETURN_IF_ERROR(reader.ReadInto(storage.mutable_bytes()));
class NpyReader {
 public:
  // Opens `path`, which may be a pipe, and reads the header; `dtype` as for ParseNpyHeader. Messages name the path.
  // kNotFound / kPermissionDenied  the file
  // kInvalidArgument, kOutOfRange  see ParseNpyHeader; `path` is a directory
  // kDataLoss                      the file is shorter than its header says: both sizes are named
  // kUnavailable / kInternal       it cannot be read: errno's text
  static StatusOr<NpyReader> Open(const std::string& path, std::optional<DType> dtype = {});

  NpyReader(NpyReader&&) noexcept;
  NpyReader& operator=(NpyReader&&) noexcept;
  ~NpyReader();

  const NpyInfo& info() const { return info_; }
  // How to read the bytes that ReadInto gives: the file's own order, so column-major for a Fortran file.
  const Header& header() const { return info_.header; }

  // Reads all elements, in this machine's byte order, into the first header().nbytes() of `bytes`. Once. Blocks.
  // kInvalidArgument  `bytes` is too small
  // kDataLoss         the file ends too early; `bytes` is partly written
  // kCancelled        `progress` returned false
  // kUnavailable, kInternal  it cannot be read: errno's text
  Status ReadInto(std::span<std::byte> bytes, const FileProgress& progress = {});

 private:
  NpyReader(std::string path, std::unique_ptr<internal::File> file, NpyInfo info);

  std::string path_;
  std::unique_ptr<internal::File> file_;
  NpyInfo info_;
};

// What becomes of a file (or link) that is at the path already.
enum class OldFile : uint8_t { kReplace, kKeep };

struct WriteOptions {
  FileProgress progress;
  OldFile old_file = OldFile::kReplace;
  // Called with the name of a file that is there only until the write's end, then with "": for who removes it at a signal.
  // Where the file system can make a file without a name (O_TMPFILE), there is one only while an old file is replaced.
  std::function<void(const std::string& path)> temporary;
};

// Writes the header's own elements, and nothing else of `storage` (its whole Storage), as np.save would: a dense
// column-major view as a Fortran file, any other in row-major order. A file appears whole or not at all: it is written
// without a name, or beside `path`; on an error nothing is left behind and an old file stays. A link stays: its target is
// written. A device or pipe at `path`, and /dev/stdout and its like whatever they lead to, are written to directly, with
// both OldFile. Not flushed to the disk (no fsync). Blocks.
// kAlreadyExists                 OldFile::kKeep: a file is there, or another process made one while this one was written
// kInvalidArgument               `path` is a directory, ends in '/', or is empty
// kNotFound / kPermissionDenied  the directory, or the file
// kResourceExhausted             the file system is full, or a quota or RLIMIT_FSIZE is reached
// kOutOfRange                    the header reaches outside `storage`
// kFailedPrecondition            the tensor lies on a GPU
// kCancelled                     `progress` returned false
// kUnavailable / kInternal       it cannot be written: errno's text
Status WriteNpy(const std::string& path, const Header& header, std::span<const std::byte> storage,
                const WriteOptions& options = {});

}  // namespace tensorbroker

#endif  // TENSORBROKER_FILES_NPY_H_
