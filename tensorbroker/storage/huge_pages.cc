#include "tensorbroker/storage/huge_pages.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace tensorbroker {
namespace {

std::optional<int64_t> ReadNumber(const std::string& path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (!(file >> number)) return std::nullopt;
  return number;
}

// "always within_size advise [never]" gives "never".
std::string BracketedWord(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const size_t open = line.find('[');
  const size_t close = line.find(']');
  return open == std::string::npos || close == std::string::npos || close < open
             ? ""
             : line.substr(open + 1, close - open - 1);
}

// The value of huge= among "rw,size=24684084k,huge=advise"; "never", the kernel's default, where there is
// none.
std::string HugeOption(const std::string& options) {
  std::istringstream stream(options);
  for (std::string option; std::getline(stream, option, ',');) {
    if (option.starts_with("huge=")) return option.substr(5);
  }
  return "never";
}

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
  std::ifstream mounts(options.root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream head(line);
    std::string id, parent, mount_device;
    head >> id >> parent >> mount_device;
    const size_t dash = line.find(" - ");
    if (mount_device != device || dash == std::string::npos) continue;
    std::istringstream tail(line.substr(dash + 3));
    std::string type, source, super_options;
    tail >> type >> source >> super_options;
    return PolicyOf(HugeOption(super_options), where);
  }
  return PolicyOf("", where);
}

HugePagePolicy MemfdHugePages(const MemoryInfoOptions& options) {
  return PolicyOf(BracketedWord(options.root + "/sys/kernel/mm/transparent_hugepage/shmem_enabled"),
                  "shmem_enabled");
}

int64_t TransparentHugePageBytes() {
  static const int64_t bytes = ReadNumber("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size").value_or(0);
  return bytes;
}

StatusOr<std::string> FindHugetlbfs(const MemoryInfoOptions& options) {
  std::ifstream mounts(options.root + "/proc/self/mountinfo");
  for (std::string line; std::getline(mounts, line);) {
    if (line.find(" - hugetlbfs ") == std::string::npos) continue;
    std::istringstream head(line);
    std::string id, parent, device, in_root, mount_point;
    head >> id >> parent >> device >> in_root >> mount_point;
    return mount_point;
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
