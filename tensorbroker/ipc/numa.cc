#include "tensorbroker/ipc/numa.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "tensorbroker/ipc/mapping.h"

namespace tensorbroker {

std::vector<int32_t> NumaNodes(std::span<const std::byte> bytes) {
  constexpr size_t kSamples = 64;
  const size_t step = std::max(static_cast<size_t>(PageSize()), bytes.size() / kSamples);
  std::set<int32_t> nodes;
  size_t samples = 0;
  for (size_t at = 0; at < bytes.size() && samples < kSamples; at += step, ++samples) {
    int node = -1;
    if (syscall(SYS_get_mempolicy, &node, nullptr, 0, bytes.data() + at, MPOL_F_NODE | MPOL_F_ADDR) == 0 &&
        node >= 0) {
      nodes.insert(node);
    }
  }
  return {nodes.begin(), nodes.end()};
}

}  // namespace tensorbroker
