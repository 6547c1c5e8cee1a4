#include "tensorbroker/ipc/memory_info.h"

#include <fmt/format.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <string_view>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/ipc/mounts.h"
#include "tensorbroker/ipc/system_files.h"

namespace tensorbroker {
namespace {

// v1 writes "no limit" as a number near 2^63, rounded to pages.
constexpr int64_t kNoLimitBytes = int64_t{1} << 60;

struct Hierarchy {
  std::string mount_point;  // "/sys/fs/cgroup"
  std::string root;         // which cgroup is seen there: "/", or a container's own
  std::string path;         // this process's cgroup
  bool v2 = false;
};

// Where the memory controller's hierarchies are mounted, and where this process is in them.
std::vector<Hierarchy> FindHierarchies(const std::string& root) {
  std::optional<std::string> path_v1;
  std::optional<std::string> path_v2;
  std::ifstream cgroups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(cgroups, line);) {  // "4:memory:/a/b", "0::/a/b"
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (line.starts_with("0::")) path_v2 = line.substr(second + 1);
    if (MountOption(controllers, "memory")) path_v1 = line.substr(second + 1);
  }
  std::vector<Hierarchy> found;
  for (const Mount& mount : ReadMounts(root)) {
    if (mount.type == "cgroup2" && path_v2) found.push_back({mount.mount_point, mount.root, *path_v2, true});
    if (mount.type == "cgroup" && path_v1 && MountOption(mount.options, "memory")) {
      found.push_back({mount.mount_point, mount.root, *path_v1, false});
    }
  }
  return found;
}

// One level's limit and use, where it has a limit. v2 counts page cache and tmpfs together in memory.current;
// what the kernel drops before it kills is inactive_file (tmpfs pages are not in it).
std::optional<CgroupHeadroom> ReadLevel(const std::string& root, const std::string& directory, bool v2) {
  const std::string limit_file = directory + (v2 ? "/memory.max" : "/memory.limit_in_bytes");
  const std::optional<int64_t> limit = ReadNumber(root + limit_file);
  if (!limit.has_value() || *limit >= kNoLimitBytes) return std::nullopt;
  const std::string used_file = directory + (v2 ? "/memory.current" : "/memory.usage_in_bytes");
  CgroupHeadroom level;
  level.path = limit_file;
  level.limit_bytes = *limit;
  const int64_t used = ReadNumber(root + used_file).value_or(0);
  const int64_t reclaimable = NumberOfKey(ReadSystemFile(root + directory + "/memory.stat").value_or(""),
                                          v2 ? "inactive_file" : "total_inactive_file")
                                  .value_or(0);
  level.used_bytes = std::max<int64_t>(0, used - reclaimable);
  return level;
}

FilesystemSpace SpaceOf(const struct statfs& info) {
  FilesystemSpace space;
  space.block_bytes = static_cast<int64_t>(info.f_bsize);
  space.total_bytes = static_cast<int64_t>(info.f_blocks) * space.block_bytes;
  space.free_bytes = static_cast<int64_t>(info.f_bavail) * space.block_bytes;
  space.free_inodes = static_cast<int64_t>(info.f_ffree);
  space.type = static_cast<uint64_t>(info.f_type);
  return space;
}

}  // namespace

StatusOr<FilesystemSpace> GetFilesystemSpace(const std::string& path) {
  struct statfs info {};
  if (statfs(path.c_str(), &info) < 0)
    return ErrnoStatus(errno, fmt::format("ask for the free space of {}", path));
  return SpaceOf(info);
}

StatusOr<FilesystemSpace> GetFilesystemSpace(int fd) {
  struct statfs info {};
  if (fstatfs(fd, &info) < 0) return ErrnoStatus(errno, "ask for a filesystem's free space");
  return SpaceOf(info);
}

StatusOr<int64_t> GetMemAvailable(const MemoryInfoOptions& options) {
  const std::optional<int64_t> kib =
      NumberOfKey(ReadSystemFile(options.root + "/proc/meminfo").value_or(""), "MemAvailable");
  if (!kib.has_value()) return UnimplementedError("read /proc/meminfo: there is no MemAvailable in it");
  return *kib * 1024;
}

std::vector<CgroupHeadroom> GetCgroupHeadrooms(const MemoryInfoOptions& options) {
  std::vector<CgroupHeadroom> levels;
  for (const Hierarchy& hierarchy : FindHierarchies(options.root)) {
    // What is below the mount: "/a/b" under root "/a" is "/b". Outside of it (another namespace's), only the
    // mount's own root can be read.
    std::string below = hierarchy.path;
    if (hierarchy.root != "/")
      below = below.starts_with(hierarchy.root) ? below.substr(hierarchy.root.size()) : "";
    while (true) {
      while (below.ends_with('/')) below.pop_back();
      if (std::optional<CgroupHeadroom> level =
              ReadLevel(options.root, hierarchy.mount_point + below, hierarchy.v2)) {
        levels.push_back(*std::move(level));
      }
      if (below.empty()) break;
      below.erase(below.rfind('/') == std::string::npos ? 0 : below.rfind('/'));
    }
  }
  return levels;
}

}  // namespace tensorbroker
