// How much memory this machine, a filesystem and this process's cgroups have left.
#ifndef TENSORBROKER_IPC_MEMORY_INFO_H_
#define TENSORBROKER_IPC_MEMORY_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

struct FilesystemSpace {
  int64_t total_bytes = 0;
  int64_t free_bytes = 0;  // for this user
  int64_t free_inodes = 0;
  uint64_t type = 0;        // statfs f_type: TMPFS_MAGIC, HUGETLBFS_MAGIC, ...
  int64_t block_bytes = 0;  // hugetlbfs: the huge page's size
};

// kNotFound, kPermissionDenied  as statfs(2) says
StatusOr<FilesystemSpace> GetFilesystemSpace(const std::string& path);
StatusOr<FilesystemSpace> GetFilesystemSpace(int fd);

// One level of this process's cgroup that has a memory limit.
struct CgroupHeadroom {
  std::string path;  // for people: "/sys/fs/cgroup/system.slice/memory.max"
  int64_t limit_bytes = 0;
  int64_t used_bytes = 0;  // less what the kernel can drop (inactive file pages)
  int64_t headroom_bytes() const { return limit_bytes > used_bytes ? limit_bytes - used_bytes : 0; }
};

// Where to look: tests give a root directory with files of their own.
struct MemoryInfoOptions {
  std::string
      root;  // before "/proc/meminfo", "/proc/self/cgroup", "/proc/self/mountinfo", "/sys/fs/cgroup/..."
};

// kUnimplemented  /proc/meminfo cannot be read, or has no MemAvailable
StatusOr<int64_t> GetMemAvailable(const MemoryInfoOptions& options = {});

// Each ancestor of this process's cgroup with a limit, v1 and v2, innermost first; empty where none binds or
// none can be read.
std::vector<CgroupHeadroom> GetCgroupHeadrooms(const MemoryInfoOptions& options = {});

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_MEMORY_INFO_H_
