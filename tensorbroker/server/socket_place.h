// Where the broker's socket lies: the default places, the directory's safety, and the lock that goes with it.
#ifndef TENSORBROKER_SERVER_SOCKET_PLACE_H_
#define TENSORBROKER_SERVER_SOCKET_PLACE_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/directory.h"

namespace tensorbroker {

// Owns the lock on the socket's place and, once Listen has succeeded, the socket's file: both are removed at its end.
class SocketPlace {
 public:
  // `path` empty: the first default place that this uid can make (root: /run/tensorbroker). Makes the last directory where it
  // is missing (0700; 0750 with a group; /run/tensorbroker 0755).
  // kInvalidArgument     a path that is too long for a socket
  // kAlreadyExists       another broker runs there: "already running, pid N"
  // kPermissionDenied    the directory, or a link in its place, is another uid's, or others may write to it
  // kNotFound            the directory's parent is missing
  static StatusOr<SocketPlace> Claim(const std::string& path, std::optional<gid_t> group);

  SocketPlace(SocketPlace&& other) noexcept = default;
  SocketPlace& operator=(SocketPlace&&) = delete;
  ~SocketPlace();

  // Codes as ListenUnix.
  StatusOr<Fd> Listen(std::optional<mode_t> mode, std::optional<gid_t> group);
  // Clients find nothing there any more; the lock stays.
  void RemoveSocket();

  const std::string& path() const { return path_; }
  // 16 hexadecimal digits that stay over restarts: from the canonical path.
  std::string InstanceName() const;

 private:
  SocketPlace(std::string path, Fd directory, LockFile lock)
      : path_(std::move(path)), directory_(std::move(directory)), lock_(std::move(lock)) {}
  std::string base() const { return path_.substr(path_.rfind('/') + 1); }

  std::string path_;
  Fd directory_;
  LockFile lock_;
  bool listening_ = false;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_SOCKET_PLACE_H_
