// Unix stream sockets: connect, listen, and send bytes with a descriptor.
//
// Paths are the caller's own (command line, environment): messages name them. None of these comes from a
// peer.
#ifndef TENSORBROKER_IPC_SOCKET_H_
#define TENSORBROKER_IPC_SOCKET_H_

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

inline constexpr size_t kMaxSocketPathBytes = 107;  // sockaddr_un's 108, less the closing zero

// kInvalidArgument  empty, with a zero byte, or over kMaxSocketPathBytes: the text gives the length and the
// limit
Status CheckSocketPath(std::string_view path);

// A connected, blocking, close-on-exec socket. Waits at most `timeout` while the listener's queue is full.
// kInvalidArgument   the path (CheckSocketPath)
// kNotFound          nothing at `path`: no broker runs there
// kPermissionDenied  this uid may not reach or write the socket
// kUnavailable       a socket that nobody listens on (its broker died), or a queue that stayed full
StatusOr<Fd> ConnectUnix(const std::string& path, Duration timeout);

struct ListenOptions {
  mode_t mode = 0600;
  std::optional<gid_t> group;  // chown to it, so that `mode` 0660 opens the socket to it
  int backlog = 128;
};

// A listening, nonblocking, close-on-exec socket at `path`, in a directory that is there already. A socket
// that nobody answers on is replaced (callers hold the instance's LockFile, so that no other broker does the
// same at once).
// kInvalidArgument   the path (CheckSocketPath)
// kAlreadyExists     a live process listens there (its pid is named), or something that is no socket stands
//                    there
// kNotFound          the directory is missing
// kPermissionDenied  the directory, or the group, is not ours to use
StatusOr<Fd> ListenUnix(const std::string& path, const ListenOptions& options);

// A connected pair, close-on-exec. For tests and for children that get one end.
StatusOr<std::pair<Fd, Fd>> SocketPair();

// Sends a prefix of `bytes` (not empty), with `fd` on its first byte when it is not -1; gives how many bytes
// went. 0: a nonblocking socket (or MSG_DONTWAIT) has no room now, and `fd` did not go. `flags` are
// send(2)'s; MSG_NOSIGNAL is always set.
// kUnavailable        the peer is gone
// kResourceExhausted  too many descriptors in flight
StatusOr<size_t> SendWithFd(int socket, std::span<const std::byte> bytes, int fd, int flags = 0);

struct Received {
  size_t bytes = 0;
  bool would_block = false;  // a nonblocking socket (or MSG_DONTWAIT) has nothing now
  Fd fd;                     // invalid where none came
  bool fd_lost = false;      // one came with these bytes, and this process had no room for it (RLIMIT_NOFILE)

  bool closed() const { return bytes == 0 && !would_block; }  // the peer closed
};

// Receives up to `buffer.size()` bytes and at most one descriptor (close-on-exec; more than one is refused
// and all are closed).
// kUnavailable      the connection broke
// kInvalidArgument  more than one descriptor
StatusOr<Received> RecvWithFd(int socket, std::span<std::byte> buffer, int flags = 0);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_SOCKET_H_
