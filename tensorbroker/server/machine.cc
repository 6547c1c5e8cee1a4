#include "tensorbroker/server/machine.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <memory>
#include <sstream>

#include "tensorbroker/ipc/mapping.h"
#include "tensorbroker/ipc/process.h"
#include "tensorbroker/ipc/socket.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace tensorbroker {
namespace {

constexpr uid_t kFirstOrdinaryUid = 1000;  // login.defs's UID_MIN; logind spares system users

std::string FirstLine(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

// logind keeps one file a lingering user, by name.
bool Lingers(uid_t uid, const std::string& root) {
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr) return false;
  return access(fmt::format("{}/var/lib/systemd/linger/{}", root, found->pw_name).c_str(), F_OK) == 0;
}

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

int64_t CountOwnFds() {
  const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir("/proc/self/fd"), closedir);
  if (dir == nullptr) return -1;
  int64_t count = 0;
  while (readdir(dir.get()) != nullptr) ++count;
  return count - 3;  // ".", ".." and the directory's own
}

// logind reads logind.conf, then the .conf files of logind.conf.d in the order of their names; the last word counts.
void ReadRemoveIpc(const std::string& path, bool* remove) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    std::string text;
    for (const char c : line) {
      if (!std::isspace(static_cast<unsigned char>(c))) {
        text += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
      }
    }
    if (!text.starts_with("removeipc=")) continue;
    const std::string value = text.substr(10);
    *remove = value == "yes" || value == "true" || value == "on" || value == "1";
  }
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
  const std::string pages = FirstLine("/proc/sys/vm/nr_hugepages");
  const bool reserved = !pages.empty() && pages != "0";
  add("hugetlbfs", HasHugeMemfd() && reserved, "no huge pages are set aside: sysctl vm.nr_hugepages=N");
  const std::string shmem = FirstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  const size_t open = shmem.find('[');
  const std::string mode =
      open == std::string::npos ? "" : shmem.substr(open + 1, shmem.find(']') - open - 1);
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
  fds.used = CountOwnFds();
  // A client takes about five: its gRPC connection twice, its lease, its process twice.
  fds.note = fmt::format("about {} clients; raise with LimitNOFILE= or `ulimit -Hn`", fds.value / 5);
  limits.push_back(std::move(fds));
  Limit maps;
  maps.name = "vm.max_map_count";
  std::istringstream(FirstLine("/proc/sys/vm/max_map_count")) >> maps.value;
  maps.note = "Storages that one client can map at a time; raise with sysctl vm.max_map_count=N";
  limits.push_back(std::move(maps));
  return limits;
}

std::string RemoveIpcWarning(SourceKind kind, uid_t uid, const std::string& root) {
  if (kind != SourceKind::kShm || uid < kFirstOrdinaryUid) return {};
  if (access((root + "/run/systemd/system").c_str(), F_OK) != 0) return {};
  bool remove = true;  // systemd's own default
  ReadRemoveIpc(root + "/etc/systemd/logind.conf", &remove);
  std::vector<std::string> names;
  const std::string place = root + "/etc/systemd/logind.conf.d";
  if (const std::unique_ptr<DIR, int (*)(DIR*)> dir(opendir(place.c_str()), closedir); dir != nullptr) {
    while (const dirent* const entry = readdir(dir.get())) {
      if (std::string_view(entry->d_name).ends_with(".conf")) names.emplace_back(entry->d_name);
    }
  }
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) ReadRemoveIpc(fmt::format("{}/{}", place, name), &remove);
  if (!remove) return {};
  if (Lingers(uid, root)) return {};
  return fmt::format(
      "RemoveIPC=yes: systemd-logind deletes uid {}'s files in /dev/shm at its last logout, the broker's "
      "memory with them; `loginctl enable-linger`, a system user, RemoveIPC=no, or --memory=memfd",
      uid);
}

}  // namespace tensorbroker
