#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "tensorbroker/files/file.h"
#include "tensorbroker/files/npy.h"

namespace tensorbroker {
namespace {

constexpr int64_t kChunkBytes = 8 << 20;  // a multiple of every item size

// Turns the bytes of each number around; a complex element is two numbers.
void SwapBytes(std::span<std::byte> bytes, DType dtype) {
  const size_t width = static_cast<size_t>(IsComplex(dtype) ? ItemSize(dtype) / 2 : ItemSize(dtype));
  for (size_t i = 0; i + width <= bytes.size(); i += width) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + width));
  }
}

Status CutShort(const std::string& path, int64_t has, int64_t needs) {
  return DataLossError(
      fmt::format("{}: the file is cut short: it has {} bytes, its header asks for {}", path, has, needs));
}

}  // namespace

NpyReader::NpyReader(std::string path, std::unique_ptr<internal::File> file, NpyInfo info)
    : path_(std::move(path)), file_(std::move(file)), info_(std::move(info)) {}
NpyReader::NpyReader(NpyReader&&) noexcept = default;
NpyReader& NpyReader::operator=(NpyReader&&) noexcept = default;
NpyReader::~NpyReader() = default;

StatusOr<NpyReader> NpyReader::Open(const std::string& path, std::optional<DType> dtype) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY));
  if (!fd.valid()) return internal::FileError("open", path, errno);
  auto file = std::make_unique<internal::File>(std::move(fd));

  std::vector<std::byte> bytes(static_cast<size_t>(kNpyPreludeBytes));
  TB_ASSIGN_OR_RETURN(const size_t prelude, file->Read(bytes, path));
  bytes.resize(prelude);
  auto header_bytes = NpyHeaderBytes(bytes);
  if (!header_bytes.ok()) return Annotate(header_bytes.status(), path);
  // A header is never shorter than the prelude: its dictionary needs more than two bytes.
  if (*header_bytes > static_cast<int64_t>(prelude)) {
    bytes.resize(static_cast<size_t>(*header_bytes));
    TB_ASSIGN_OR_RETURN(const size_t rest, file->Read(std::span(bytes).subspan(prelude), path));
    bytes.resize(prelude + rest);
  }
  auto info = ParseNpyHeader(bytes, dtype);
  if (!info.ok()) return Annotate(info.status(), path);

  // A regular file's length is known: say now, before anyone makes room for it, that it is too short.
  struct stat status = {};
  if (::fstat(file->fd(), &status) != 0) return internal::FileError("stat", path, errno);
  const int64_t data_bytes = status.st_size - info->data_offset;
  if (S_ISREG(status.st_mode) && data_bytes < info->header.nbytes()) {
    return DataLossError(
        fmt::format("{}: the file is cut short: {} bytes of elements, its header asks for {}", path,
                    std::max<int64_t>(data_bytes, 0), info->header.nbytes()));
  }
  return NpyReader(path, std::move(file), *std::move(info));
}

Status NpyReader::ReadInto(std::span<std::byte> bytes, const FileProgress& progress) {
  const int64_t total = info_.header.nbytes();
  if (static_cast<int64_t>(bytes.size()) < total) {
    return InvalidArgumentError(
        fmt::format("{}: {} bytes of elements do not fit into {}", path_, total, bytes.size()));
  }
  for (int64_t done = 0; done < total;) {
    const auto chunk =
        bytes.subspan(static_cast<size_t>(done), static_cast<size_t>(std::min(kChunkBytes, total - done)));
    TB_ASSIGN_OR_RETURN(const size_t got, file_->Read(chunk, path_));
    if (got < chunk.size())
      return CutShort(path_, info_.data_offset + done + static_cast<int64_t>(got), info_.data_offset + total);
    if (info_.big_endian) SwapBytes(chunk, info_.header.dtype());
    done += static_cast<int64_t>(got);
    if (progress && !progress(done, total))
      return CancelledError(fmt::format("{}: reading was stopped", path_));
  }
  return OkStatus();
}

}  // namespace tensorbroker
