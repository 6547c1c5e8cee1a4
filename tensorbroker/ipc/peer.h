// Who is at the other end of a Unix socket, by the kernel's word alone.
#ifndef TENSORBROKER_IPC_PEER_H_
#define TENSORBROKER_IPC_PEER_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

// The process that connected (at that instant), and a pidfd of it: a bare pid is never an identity.
// Move-only.
struct PeerIdentity {
  uid_t uid = static_cast<uid_t>(-1);
  gid_t gid = static_cast<gid_t>(-1);
  pid_t pid = 0;  // 0: the peer's pid namespace cannot be seen from here
  std::vector<gid_t> groups;
  Fd pidfd;

  bool InGroup(gid_t group) const;
  // "uid 1000 pid 4711"
  std::string ToString() const;
};

// The peer of a connected Unix socket. Never blocks.
// kUnauthenticated    the kernel did not tell, or the process has ended already; for pid 0 without
//                     SO_PEERPIDFD too
// kResourceExhausted  no descriptor left for the pidfd
StatusOr<PeerIdentity> IdentifyPeer(int socket);

// True for two looks at one process: uid and pid are equal, and so is the pidfd's inode where the kernel
// gives each process its own (6.9 and later). On earlier kernels both must also still run, so that a reused
// pid is never the same.
bool SameProcess(const PeerIdentity& a, const PeerIdentity& b);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_PEER_H_
