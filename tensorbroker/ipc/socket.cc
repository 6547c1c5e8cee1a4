#include "tensorbroker/ipc/socket.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

namespace tensorbroker {
namespace {

// More than one descriptor is never expected; room for a few lets us close a hostile peer's instead of only
// truncating.
constexpr size_t kControlFds = 16;

sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

StatusOr<Fd> NewSocket(int flags) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
  if (fd < 0) return ErrnoStatus(errno, "make a Unix socket");
  return Fd(fd);
}

int ConnectOnce(int fd, const std::string& path) {
  const sockaddr_un address = AddressOf(path);
  int result;
  do {
    result = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result < 0 && errno == EINTR);
  return result < 0 ? errno : 0;
}

Status ConnectError(int err, const std::string& path) {
  const std::string subject = fmt::format("connect to the broker at {}", path);
  switch (err) {
    case ENOENT:
    case ENOTDIR:
      return NotFoundError(
          fmt::format("{}: no such socket: no broker runs there; start one with `tensorctl serve` or "
                      "`tensorbrokerd`, or name another socket",
                      subject));
    case EACCES:
    case EPERM:
      return PermissionDeniedError(
          fmt::format("{}: permission denied for uid {}: the broker's owner can open the socket to you with "
                      "--socket-mode "
                      "and --socket-group",
                      subject, geteuid()));
    case ECONNREFUSED:
      return UnavailableError(
          fmt::format("{}: nobody listens on this socket: its broker has ended; start it again, or "
                      "remove the file if it is no socket",
                      subject));
    case EAGAIN:
      return UnavailableError(
          fmt::format("{}: the broker's queue of new connections stayed full: it is overloaded or "
                      "stopped",
                      subject));
    default:
      return ErrnoStatus(err, subject);
  }
}

// Removes a socket at `path` that nobody answers on.
Status RemoveStaleSocket(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) < 0) {
    return errno == ENOENT ? OkStatus() : ErrnoStatus(errno, fmt::format("listen on {}", path));
  }
  if (!S_ISSOCK(info.st_mode)) {
    return AlreadyExistsError(
        fmt::format("listen on {}: something that is no socket stands there; move it away", path));
  }
  TB_ASSIGN_OR_RETURN(const Fd probe, NewSocket(SOCK_NONBLOCK));
  const int err = ConnectOnce(probe.get(), path);
  if (err == 0 || err == EAGAIN || err == EINPROGRESS) {
    ucred peer{};
    socklen_t size = sizeof(peer);
    if (err == 0) (void)getsockopt(probe.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size);
    const std::string pid = peer.pid > 0 ? fmt::format(", pid {}", peer.pid) : "";
    return AlreadyExistsError(fmt::format("listen on {}: already running{}", path, pid));
  }
  if (err != ECONNREFUSED && err != ENOENT)
    return ErrnoStatus(err, fmt::format("listen on {}: probe the old socket", path));
  if (unlink(path.c_str()) < 0 && errno != ENOENT) {
    return ErrnoStatus(errno, fmt::format("listen on {}: remove the old socket", path));
  }
  return OkStatus();
}

}  // namespace

Status CheckSocketPath(std::string_view path) {
  if (path.empty()) return InvalidArgumentError("the socket's path is empty");
  if (path.find('\0') != std::string_view::npos)
    return InvalidArgumentError("the socket's path has a zero byte");
  if (path.size() > kMaxSocketPathBytes) {
    return InvalidArgumentError(
        fmt::format("the socket's path has {} bytes, and the kernel's limit is {}: choose a shorter "
                    "one with --socket or $TENSORBROKER_SOCKET ({})",
                    path.size(), kMaxSocketPathBytes, path));
  }
  return OkStatus();
}

StatusOr<Fd> ConnectUnix(const std::string& path, Duration timeout) {
  TB_RETURN_IF_ERROR(CheckSocketPath(path));
  TB_ASSIGN_OR_RETURN(Fd fd, NewSocket(0));
  // A blocking connect waits SO_SNDTIMEO for a place in the listener's queue, then says EAGAIN. Zero would
  // mean for ever.
  const auto set_timeout = [&fd](std::chrono::microseconds us) {
    const timeval limit{static_cast<time_t>(us.count() / 1000000),
                        static_cast<suseconds_t>(us.count() % 1000000)};
    return setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  };
  if (timeout != kForever) {
    const auto us = std::chrono::duration_cast<std::chrono::microseconds>(timeout);
    (void)set_timeout(std::max(us, std::chrono::microseconds(1)));
  }
  const int err = ConnectOnce(fd.get(), path);
  if (err != 0) return ConnectError(err, path);
  (void)set_timeout(std::chrono::microseconds(0));
  return fd;
}

StatusOr<Fd> ListenUnix(const std::string& path, const ListenOptions& options) {
  TB_RETURN_IF_ERROR(CheckSocketPath(path));
  TB_RETURN_IF_ERROR(RemoveStaleSocket(path));
  TB_ASSIGN_OR_RETURN(Fd fd, NewSocket(SOCK_NONBLOCK));
  // The socket's file gets the mode of the open socket: narrow from the first instant, whatever the umask
  // (which is the whole process's and not ours to change).
  const std::string subject = fmt::format("listen on {}", path);
  if (fchmod(fd.get(), 0600) < 0) return ErrnoStatus(errno, subject);
  const sockaddr_un address = AddressOf(path);
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) < 0)
    return ErrnoStatus(errno, subject);
  const auto give_up = [&](int err, std::string_view step) {
    unlink(path.c_str());
    return ErrnoStatus(err, fmt::format("{}: {}", subject, step));
  };
  if (options.group.has_value() && lchown(path.c_str(), static_cast<uid_t>(-1), *options.group) < 0) {
    return give_up(errno, fmt::format("give it to group {}", *options.group));
  }
  // Listen before the mode opens it, so that whoever may connect never finds it refused.
  if (listen(fd.get(), options.backlog) < 0) return give_up(errno, "listen");
  if (chmod(path.c_str(), options.mode) < 0) return give_up(errno, "set its mode");
  return fd;
}

StatusOr<std::pair<Fd, Fd>> SocketPair() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
    return ErrnoStatus(errno, "make a socket pair");
  return std::pair(Fd(fds[0]), Fd(fds[1]));
}

StatusOr<size_t> SendWithFd(int socket, std::span<const std::byte> bytes, int fd, int flags) {
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(head), &fd, sizeof(int));
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &message, flags | MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return static_cast<size_t>(sent);
  if (errno == EAGAIN) return size_t{0};
  if (errno == ETOOMANYREFS) {
    return ResourceExhaustedError(
        "send a descriptor: too many are in flight to peers that do not read (RLIMIT_NOFILE)");
  }
  return ErrnoStatus(errno, "send on a Unix socket");
}

StatusOr<Received> RecvWithFd(int socket, std::span<std::byte> buffer, int flags) {
  iovec piece{buffer.data(), buffer.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kControlFds)] = {};
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &message, flags | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  Received received;
  if (got < 0) {
    if (errno != EAGAIN) return ErrnoStatus(errno, "receive on a Unix socket");
    received.would_block = true;
    return received;
  }
  received.bytes = static_cast<size_t>(got);
  std::vector<Fd> fds;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof(int));
      fds.emplace_back(fd);
    }
  }
  if (fds.size() > 1) return InvalidArgumentError("receive a descriptor: the peer sent more than one");
  // The bytes are read and would be missed by whoever decodes the stream.
  received.fd_lost = (message.msg_flags & MSG_CTRUNC) != 0;
  if (!fds.empty()) received.fd = std::move(fds.front());
  return received;
}

}  // namespace tensorbroker
