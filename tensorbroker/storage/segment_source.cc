#include "tensorbroker/storage/segment_source.h"

#include <fmt/format.h>
#include <unistd.h>

#include <string_view>

#include "tensorbroker/base/name.h"
#include "tensorbroker/storage/file_source.h"
#include "tensorbroker/storage/heap_source.h"
#include "tensorbroker/storage/huge_pages.h"
#include "tensorbroker/storage/memfd_source.h"

namespace tensorbroker {
namespace {

constexpr size_t kMaxInstanceBytes = 64;

Status CheckInstance(std::string_view instance) {
  bool good = !instance.empty() && instance.size() <= kMaxInstanceBytes && instance.front() != '.';
  for (const char c : instance) {
    good = good && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.');
  }
  if (good) return OkStatus();
  return InvalidArgumentError(
      fmt::format("instance {}: 1 to {} letters, digits, '-', '_' and '.', and no '.' first",
                  QuoteForMessage(instance), kMaxInstanceBytes));
}

}  // namespace

StatusOr<std::unique_ptr<SegmentSource>> OpenSource(const SourceOptions& options) {
  if (options.kind == SourceKind::kHeap) return std::make_unique<HeapSource>();
  // memfds are not named after it; yet what one kind of memory refuses, all do.
  TB_RETURN_IF_ERROR(CheckInstance(options.instance));
  if (options.kind == SourceKind::kMemfd) return std::make_unique<MemfdSource>();
  std::string parent = options.directory;
  if (parent.empty() && options.kind == SourceKind::kShm) parent = "/dev/shm";
  if (parent.empty()) {
    TB_ASSIGN_OR_RETURN(parent, FindHugetlbfs());
  }
  const std::string place = fmt::format("{}/tensorbroker-{}-{}", parent, geteuid(), options.instance);
  return FileSource::Open(options.kind, parent, place);
}

}  // namespace tensorbroker
