#include "tensorbroker/storage/huge_pages.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <optional>
#include <string_view>

#include "tensorbroker/ipc/mounts.h"
#include "tensorbroker/ipc/system_files.h"

namespace tensorbroker {
namespace {

HugePagePolicy PolicyOf(const std::string& word, std::string_view where) {
  // "deny" and "force" are the kernel's test settings for all of shmem.
  if (word == "always" || word == "within_size" || word == "advise" || word == "force") {
    return {true, fmt::format("on ({} is {})", where, word)};
  }
  if (word.empty()) return {false, fmt::format("none ({} cannot be read)", where)};
  return {false, fmt::format("none ({} is {})", where, word)};
}

}  // namespace

HugePagePolicy TmpfsHugePages(const std::string& path, const MemoryInfoOptions& options) {
  const std::string_view where = "mount option huge=";
  struct stat info {};
  if (stat(path.c_str(), &info) < 0) return PolicyOf("", where);
  const std::string device = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
  for (const Mount& mount : ReadMounts(options.root)) {
    // "never" is the kernel's default.
    if (mount.device == device) return PolicyOf(MountOption(mount.options, "huge").value_or("never"), where);
  }
  return PolicyOf("", where);
}

HugePagePolicy MemfdHugePages(const MemoryInfoOptions& options) {
  return PolicyOf(ReadChosenWord(options.root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
                  "shmem_enabled");
}

int64_t TransparentHugePageBytes() {
  static const int64_t bytes = ReadNumber("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").value_or(0);
  return bytes;
}

StatusOr<std::string> FindHugetlbfs(const MemoryInfoOptions& options) {
  for (const Mount& mount : ReadMounts(options.root)) {
    if (mount.type == "hugetlbfs") return mount.mount_point;
  }
  return UnimplementedError(
      "use hugetlbfs: none is mounted here: `mount -t hugetlbfs none /dev/hugepages`, and set pages aside "
      "with `sysctl -w "
      "vm.nr_hugepages=N`; or use --memory=shm or memfd");
}

StatusOr<FilesystemSpace> HugetlbPool(int64_t page_bytes, const MemoryInfoOptions& options) {
  const std::string pool =
      fmt::format("{}/sys/kernel/mm/hugepages/hugepages-{}kB/", options.root, page_bytes / 1024);
  const std::optional<int64_t> total = ReadNumber(pool + "nr_hugepages");
  const std::optional<int64_t> overcommit = ReadNumber(pool + "nr_overcommit_hugepages");
  const std::optional<int64_t> free = ReadNumber(pool + "free_hugepages");
  const std::optional<int64_t> promised = ReadNumber(pool + "resv_hugepages");
  const int64_t most = total.value_or(0) + overcommit.value_or(0);
  if (most == 0) {
    return UnimplementedError(
        fmt::format("use hugetlbfs: the kernel has no huge page of {} KiB set aside: `sysctl -w "
                    "vm.nr_hugepages=N`; or use --memory=shm "
                    "or memfd",
                    page_bytes / 1024));
  }
  FilesystemSpace space;
  space.block_bytes = page_bytes;
  space.total_bytes = most * page_bytes;
  const int64_t free_pages = free.value_or(0) - promised.value_or(0) + overcommit.value_or(0);
  space.free_bytes = (free_pages > 0 ? free_pages : 0) * page_bytes;
  return space;
}

}  // namespace tensorbroker
