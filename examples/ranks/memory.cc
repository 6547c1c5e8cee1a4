#include "examples/ranks/memory.h"

#include <cstdio>
#include <fstream>
#include <string>

namespace tensorbroker::examples {

StatusOr<MappingMemory> MemoryAt(const void* address) {
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  std::ifstream smaps("/proc/self/smaps");
  bool here = false;
  MappingMemory memory;
  for (std::string line; std::getline(smaps, line);) {
    unsigned long begin = 0, end = 0;
    long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) {
      if (here) return memory;
      here = begin <= wanted && wanted < end;
    } else if (here && std::sscanf(line.c_str(), "Rss: %ld kB", &kilobytes) == 1) {
      memory.rss_bytes = kilobytes * 1024;
    } else if (here && std::sscanf(line.c_str(), "Pss: %ld kB", &kilobytes) == 1) {
      memory.pss_bytes = kilobytes * 1024;
    }
  }
  if (!here) return NotFoundError("MemoryAt: no mapping of /proc/self/smaps holds that address");
  return memory;
}

}  // namespace tensorbroker::examples
