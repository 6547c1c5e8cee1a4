// On which NUMA nodes bytes of this process's mappings lie.
#ifndef TENSORBROKER_CLI_NUMA_H_
#define TENSORBROKER_CLI_NUMA_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace tensorbroker::cli {

// The nodes of up to 64 pages spread over `bytes`, each once, ascending; reads a byte of each. None: the kernel does not
// say, or `bytes` is empty.
std::optional<std::vector<int>> NumaNodes(std::span<const std::byte> bytes);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_NUMA_H_
