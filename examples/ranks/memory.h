// What the kernel says of a mapping's memory: /proc/self/smaps.
#ifndef TENSORBROKER_EXAMPLES_RANKS_MEMORY_H_
#define TENSORBROKER_EXAMPLES_RANKS_MEMORY_H_

#include <cstdint>

#include "tensorbroker/base/status.h"

namespace tensorbroker::examples {

struct MappingMemory {
  int64_t rss_bytes = 0;  // pages of the mapping that this process has in its page table
  int64_t pss_bytes = 0;  // the same, each page divided by the number of processes that have it
};

// Of the mapping that holds `address`.
// kNotFound  nothing is mapped there, or /proc/self/smaps cannot be read
StatusOr<MappingMemory> MemoryAt(const void* address);

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_RANKS_MEMORY_H_
