#include "tensorbroker/cli/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>

namespace tensorbroker::cli {

std::optional<std::vector<int>> NumaNodes(std::span<const std::byte> bytes) {
  constexpr size_t kSamples = 64;
  if (bytes.empty()) return std::nullopt;
  const auto page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t step = std::max(page_bytes, bytes.size() / kSamples);
  std::vector<void*> pages;
  for (size_t at = 0; at < bytes.size() && pages.size() < kSamples; at += step) {
    const std::byte* const address = bytes.data() + at;
    static_cast<void>(
        *const_cast<const volatile std::byte*>(address));  // a page that is not there has no node
    const uintptr_t page = reinterpret_cast<uintptr_t>(address) & ~(uintptr_t{page_bytes} - 1);
    pages.push_back(reinterpret_cast<void*>(page));
  }
  // With no target nodes move_pages(2) moves nothing and tells where each page is.
  std::vector<int> nodes(pages.size(), -1);
  if (syscall(SYS_move_pages, 0, pages.size(), pages.data(), nullptr, nodes.data(), 0) != 0)
    return std::nullopt;
  std::set<int> distinct;
  for (const int node : nodes) {
    if (node >= 0) distinct.insert(node);
  }
  if (distinct.empty()) return std::nullopt;
  return std::vector<int>(distinct.begin(), distinct.end());
}

}  // namespace tensorbroker::cli
