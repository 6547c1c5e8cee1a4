#include "tensorbroker/ipc/peer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "tensorbroker/ipc/process.h"

namespace tensorbroker {
namespace {

#ifdef SO_PEERPIDFD
constexpr int kSoPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kSoPeerPidfd = 77;  // Linux 6.5; the C library's headers may be older
#endif
constexpr size_t kMaxGroups = 65536;  // NGROUPS_MAX

Status Unknown(std::string_view why) {
  return UnauthenticatedError(fmt::format("identify the peer of a socket: {}", why));
}

StatusOr<std::vector<gid_t>> PeerGroups(int socket) {
  std::vector<gid_t> groups(64);
  while (true) {
    socklen_t size = static_cast<socklen_t>(groups.size() * sizeof(gid_t));
    if (getsockopt(socket, SOL_SOCKET, SO_PEERGROUPS, groups.data(), &size) == 0) {
      groups.resize(size / sizeof(gid_t));
      return groups;
    }
    if (errno != ERANGE || size / sizeof(gid_t) > kMaxGroups || size / sizeof(gid_t) <= groups.size()) {
      return Unknown("the kernel does not tell its groups");
    }
    groups.resize(size / sizeof(gid_t));
  }
}

// A pidfd from the kernel's own record of who connected, or, before Linux 6.5, one of the pid while the
// connection is fresh.
StatusOr<Fd> PeerPidfd(int socket, pid_t pid) {
  int fd = -1;
  socklen_t size = sizeof(fd);
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &size) == 0 && fd >= 0) return Fd(fd);
  const int err = errno;
  if (err == EMFILE || err == ENFILE) return ErrnoStatus(err, "open a pidfd of the peer");
  if (err != ENOPROTOOPT) return Unknown("it has ended");
  if (pid == 0)
    return Unknown("its pid namespace cannot be seen from here, and this kernel has no SO_PEERPIDFD");
  StatusOr<Fd> opened = PidfdOpen(pid);
  if (opened.ok() || opened.status().code() == StatusCode::kResourceExhausted) return opened;
  return Unknown("it has ended");
}

}  // namespace

bool PeerIdentity::InGroup(gid_t group) const {
  return gid == group || std::find(groups.begin(), groups.end(), group) != groups.end();
}

std::string PeerIdentity::ToString() const { return fmt::format("uid {} pid {}", uid, pid); }

StatusOr<PeerIdentity> IdentifyPeer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 || size != sizeof(credentials) ||
      credentials.uid == static_cast<uid_t>(-1)) {
    return Unknown("the kernel does not tell its credentials");
  }
  PeerIdentity peer;
  peer.uid = credentials.uid;
  peer.gid = credentials.gid;
  peer.pid = credentials.pid;
  TB_ASSIGN_OR_RETURN(peer.pidfd, PeerPidfd(socket, peer.pid));
  // A pid read before the pidfd was open may have passed to another process: a live pidfd rules that out.
  if (PidfdHasEnded(peer.pidfd.get())) return Unknown("it has ended");
  TB_ASSIGN_OR_RETURN(peer.groups, PeerGroups(socket));
  return peer;
}

bool SameProcess(const PeerIdentity& a, const PeerIdentity& b) {
  if (a.uid != b.uid || a.pid != b.pid) return false;
  const std::optional<uint64_t> inode_a = PidfdInode(a.pidfd.get());
  const std::optional<uint64_t> inode_b = PidfdInode(b.pidfd.get());
  if (inode_a.has_value() && inode_b.has_value()) return *inode_a == *inode_b;
  // Without inodes: two live processes of one visible pid are one.
  return a.pid != 0 && !PidfdHasEnded(a.pidfd.get()) && !PidfdHasEnded(b.pidfd.get());
}

}  // namespace tensorbroker
