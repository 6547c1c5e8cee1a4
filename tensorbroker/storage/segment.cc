#include "tensorbroker/storage/segment.h"

#include <fmt/format.h>

#include "tensorbroker/base/name.h"

namespace tensorbroker {

std::string_view Name(SourceKind kind) {
  switch (kind) {
    case SourceKind::kShm:
      return "shm";
    case SourceKind::kMemfd:
      return "memfd";
    case SourceKind::kHugetlbfs:
      return "hugetlbfs";
    case SourceKind::kHeap:
      return "heap";
  }
  return "unknown";
}

StatusOr<SourceKind> ParseSourceKind(std::string_view text) {
  for (const SourceKind kind : {SourceKind::kShm, SourceKind::kMemfd, SourceKind::kHugetlbfs}) {
    if (text == Name(kind)) return kind;
  }
  return InvalidArgumentError(
      fmt::format("memory {} is unknown: choose shm, memfd or hugetlbfs", QuoteForMessage(text)));
}

}  // namespace tensorbroker
