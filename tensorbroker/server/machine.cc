#include "tensorbroker/server/machine.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "tensorbroker/ipc/logind.h"
#include "tensorbroker/ipc/mapping.h"
#include "tensorbroker/ipc/process.h"
#include "tensorbroker/ipc/socket.h"
#include "tensorbroker/ipc/system_files.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tensorbroker {
namespace {

bool HasPeerPidfd() {
  const auto pair = SocketPair();
  int fd = -1;
  socklen_t size = sizeof fd;
  if (!pair.ok() || getsockopt(pair->first.get(), SOL_SOCKET, SO_PEERPIDFD, &fd, &size) != 0) return false;
  Fd closes(fd);
  return true;
}

bool HasPidfs() {
  const StatusOr<Fd> self = PidfdOpen(getpid());
  return self.ok() && PidfdInode(self->get()).has_value();
}

bool HasSealing() {
  const Fd fd(memfd_create("tensorbroker-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  return fd.valid() && fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

bool HasHugeMemfd() {
  const Fd fd(memfd_create("tensorbroker-probe", MFD_CLOEXEC | MFD_HUGETLB));
  return fd.valid();
}

bool HasPopulateWrite() {
  const size_t size = static_cast<size_t>(PageSize());
  void* const page = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return false;
  const bool has = madvise(page, size, MADV_POPULATE_WRITE) == 0;
  munmap(page, size);
  return has;
}

}  // namespace

std::vector<Feature> ProbeFeatures() {
  std::vector<Feature> features;
  const auto add = [&features](std::string name, bool present, std::string without) {
    features.push_back({std::move(name), present, present ? std::string() : std::move(without)});
  };
  add("SO_PEERPIDFD", HasPeerPidfd(), "needs Linux 6.5: the peer's pid is opened at once instead");
  add("pidfs", HasPidfs(), "needs Linux 6.9: processes are compared by pid while both run");
  add("memfd sealing", HasSealing(), "--memory=memfd cannot be used");
  add("MADV_POPULATE_WRITE", HasPopulateWrite(), "needs Linux 5.14: huge pages on advice cannot be reserved");
  const bool reserved = ReadNumber("/proc/sys/vm/nr_hugepages").value_or(0) > 0;
  add("hugetlbfs", HasHugeMemfd() && reserved, "no huge pages are set aside: sysctl vm.nr_hugepages=N");
  const std::string mode = ReadChosenWord("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  add("huge pages for memfd", !mode.empty() && mode != "never" && mode != "deny",
      fmt::format("transparent_hugepage/shmem_enabled is \"{}\"", mode));
  return features;
}

std::vector<Limit> MachineLimits() {
  std::vector<Limit> limits;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  Limit fds;
  fds.name = "broker file descriptors";
  fds.value = static_cast<int64_t>(std::min<rlim_t>(files.rlim_cur, INT64_MAX));
  fds.used = CountFdsOf(getpid()).value_or(-1);
  // A client takes about five: its gRPC connection twice, its lease, its process twice.
  fds.note = fmt::format("about {} clients; raise with LimitNOFILE= or `ulimit -Hn`", fds.value / 5);
  limits.push_back(std::move(fds));
  Limit maps;
  maps.name = "vm.max_map_count";
  maps.value = ReadNumber("/proc/sys/vm/max_map_count").value_or(0);
  maps.note = "Storages that one client can map at a time; raise with sysctl vm.max_map_count=N";
  limits.push_back(std::move(maps));
  return limits;
}

std::string RemoveIpcWarning(SourceKind kind, uid_t uid, const std::string& root) {
  if (kind != SourceKind::kShm || IsSystemUser(uid) || !RemoveIpc(root).value_or(false) ||
      Lingers(uid, root)) {
    return {};
  }
  return fmt::format(
      "RemoveIPC=yes: systemd-logind deletes uid {}'s files in /dev/shm at its last logout, the broker's "
      "memory with them; `loginctl enable-linger`, a system user, RemoveIPC=no, or --memory=memfd",
      uid);
}

}  // namespace tensorbroker
