// What this machine does about huge pages, as the kernel says it.
#ifndef TENSORBROKER_STORAGE_HUGE_PAGES_H_
#define TENSORBROKER_STORAGE_HUGE_PAGES_H_

#include <cstdint>
#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/memory_info.h"

namespace tensorbroker {

struct HugePagePolicy {
  bool on_advice = false;  // madvise(MADV_HUGEPAGE) and a first touch through a mapping get them
  std::string text;        // for people: "on advice (mount option huge=advise)"
};

// The huge= option of the tmpfs that `path` is on. `root` as in MemoryInfoOptions.
HugePagePolicy TmpfsHugePages(const std::string& path, const MemoryInfoOptions& options = {});
// /sys/kernel/mm/transparent_hugepage/shmem_enabled, which rules memfds.
HugePagePolicy MemfdHugePages(const MemoryInfoOptions& options = {});

// The size of a transparent huge page: 2 MiB on x86_64. 0 where the kernel has none.
int64_t TransparentHugePageBytes();

// The first hugetlbfs that is mounted.
// kUnimplemented  none is: the text says how to mount one
StatusOr<std::string> FindHugetlbfs(const MemoryInfoOptions& options = {});

// The pages of `page_bytes` in the kernel's pool (statfs of a hugetlbfs without size= does not tell).
// kUnimplemented  no such pool, or no pages in it: the text says how to set some aside
StatusOr<FilesystemSpace> HugetlbPool(int64_t page_bytes, const MemoryInfoOptions& options = {});

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_HUGE_PAGES_H_
