#include "tensorbroker/cli/host_facts.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/ipc/logind.h"
#include "tensorbroker/ipc/mounts.h"
#include "tensorbroker/ipc/process.h"
#include "tensorbroker/ipc/system_files.h"

namespace tensorbroker::cli {
namespace {

// The huge= option of the mount that is seen at `directory`; empty: none.
std::string MountHugeOption(std::string_view directory) {
  std::string option;
  for (const Mount& mount : ReadMounts()) {
    if (mount.mount_point == directory) option = MountOption(mount.options, "huge").value_or("");
  }
  return option;
}

// Whether a broker holds the lock of the instance in `directory`. A shared lock is asked for, and given back at once.
bool IsLocked(const std::string& directory) {
  const Fd lock(open((directory + "/lock").c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return lock.valid() && flock(lock.get(), LOCK_SH | LOCK_NB) != 0;
}

}  // namespace

std::vector<Leftover> FindLeftovers(const std::string& directory, uint32_t uid) {
  namespace fs = std::filesystem;
  const std::string prefix = fmt::format("tensorbroker-{}-", uid);
  std::vector<Leftover> found;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    struct stat info {};
    if (!at->path().filename().string().starts_with(prefix)) continue;
    if (lstat(at->path().c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != uid) continue;
    Leftover left{at->path().string()};
    std::error_code inside;
    for (fs::directory_iterator file(at->path(), inside); !inside && file != end; file.increment(inside)) {
      SegmentId id;
      if (!ParseId(file->path().filename().string(), &id).ok()) continue;
      if (lstat(file->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
      ++left.files;
      left.bytes += static_cast<int64_t>(info.st_blocks) * 512;
    }
    // Looked at last: a broker that ends meanwhile has removed its files before its lock.
    if (left.files > 0 && !IsLocked(left.directory) && fs::exists(left.directory, inside))
      found.push_back(std::move(left));
  }
  std::sort(found.begin(), found.end(),
            [](const Leftover& a, const Leftover& b) { return a.bytes > b.bytes; });
  return found;
}

HostFacts GatherHostFacts(int32_t broker_pid, uint32_t broker_uid) {
  HostFacts facts;
  const std::string meminfo = ReadSystemFile("/proc/meminfo").value_or("");
  const auto swap_total_kib = NumberOfKey(meminfo, "SwapTotal");
  const auto swap_free_kib = NumberOfKey(meminfo, "SwapFree");
  if (swap_total_kib) facts.swap_total_bytes = *swap_total_kib * 1024;
  if (swap_total_kib && swap_free_kib) facts.swap_used_bytes = (*swap_total_kib - *swap_free_kib) * 1024;
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    facts.shm_size_bytes = static_cast<int64_t>(shm.f_blocks) * static_cast<int64_t>(shm.f_frsize);
  }
  facts.leftovers = FindLeftovers("/dev/shm", broker_uid);
  facts.remove_ipc = RemoveIpc();
  facts.uid_is_system = IsSystemUser(broker_uid);
  facts.uid_lingers = Lingers(broker_uid);
  if (broker_pid > 0) {
    const auto limits = ReadSystemFile(fmt::format("/proc/{}/limits", broker_pid));
    facts.broker_fd_limit = NumberOfKey(limits.value_or(""), "Max open files");  // the soft one
    facts.broker_fds = CountFdsOf(broker_pid);
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    facts.client_fd_limit = static_cast<int64_t>(files.rlim_cur);
  }
  facts.max_map_count = ReadNumber("/proc/sys/vm/max_map_count");
  facts.shmem_huge_pages = ReadChosenWord("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  facts.shm_mount_huge_pages = MountHugeOption("/dev/shm");
  return facts;
}

}  // namespace tensorbroker::cli
