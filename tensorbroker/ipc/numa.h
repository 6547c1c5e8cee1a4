// On which NUMA nodes bytes of this process's mappings lie.
#ifndef TENSORBROKER_IPC_NUMA_H_
#define TENSORBROKER_IPC_NUMA_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tensorbroker {

// The nodes of up to 64 pages spread over `bytes`, each once, ascending. The kernel looks, not this process: pages that
// a file has lost are no SIGBUS, they are left out. Empty: the kernel does not say, or `bytes` is empty.
std::vector<int32_t> NumaNodes(std::span<const std::byte> bytes);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_NUMA_H_
