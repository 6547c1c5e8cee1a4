#include "tensorbroker/client/locate.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "tensorbroker/ipc/socket.h"

namespace tensorbroker::internal {

namespace {

constexpr char kSystemDirectory[] = "/run/tensorbroker";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// So that a later chdir does not lead a forked child elsewhere.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::string absolute = std::filesystem::absolute(path, error).lexically_normal().string();
  return error || absolute.size() > kMaxSocketPathBytes ? path : absolute;
}

// The owner of /run/tensorbroker, which only root can have made: /run is root's and nobody else may write it.
uid_t SystemDirectoryOwner() {
  struct stat run {};
  struct stat directory {};
  constexpr auto kNobody = static_cast<uid_t>(-1);
  if (lstat("/run", &run) != 0 || run.st_uid != 0 || (run.st_mode & (S_IWGRP | S_IWOTH)) != 0) return kNobody;
  if (lstat(kSystemDirectory, &directory) != 0 || !S_ISDIR(directory.st_mode)) return kNobody;
  return directory.st_uid;
}

}  // namespace

std::vector<SocketCandidate> CandidateSockets(const std::string& socket) {
  if (!socket.empty()) return {{Absolute(socket), true}};
  if (const std::string named = Environment("TENSORBROKER_SOCKET"); !named.empty())
    return {{Absolute(named), true}};
  std::vector<SocketCandidate> candidates;
  if (const std::string runtime = Environment("XDG_RUNTIME_DIR"); !runtime.empty()) {
    candidates.push_back({runtime + "/tensorbroker/broker.sock"});
  }
  candidates.push_back({std::string(kSystemDirectory) + "/broker.sock"});
  candidates.push_back({fmt::format("/tmp/tensorbroker-{}/broker.sock", getuid())});
  return candidates;
}

bool MayServe(uid_t listener, uid_t self, uid_t run_owner) {
  return listener == self || listener == 0 || (run_owner != static_cast<uid_t>(-1) && listener == run_owner);
}

StatusOr<Fd> ConnectToBroker(const SocketCandidate& candidate, Duration timeout) {
  TB_ASSIGN_OR_RETURN(Fd fd, ConnectUnix(candidate.path, timeout));
  if (candidate.named) return fd;
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return ErrnoStatus(errno, "SO_PEERCRED");
  const bool system = candidate.path == std::string(kSystemDirectory) + "/broker.sock";
  if (!MayServe(peer.uid, geteuid(), system ? SystemDirectoryOwner() : static_cast<uid_t>(-1))) {
    return PermissionDeniedError(
        fmt::format("uid {} serves there, which is neither this uid ({}) nor root; if you trust it, name the "
                    "socket yourself",
                    peer.uid, geteuid()));
  }
  return fd;
}

Status NoBroker(const std::vector<SocketCandidate>& candidates, const std::vector<Status>& causes) {
  // A refusal says more than a dead socket, and that more than none.
  constexpr std::array kByGravity = {StatusCode::kNotFound, StatusCode::kUnavailable};
  const auto gravity = [&](const Status& status) {
    return std::find(kByGravity.begin(), kByGravity.end(), status.code()) - kByGravity.begin();
  };
  const auto gravest = std::max_element(causes.begin(), causes.end(), [&](const Status& a, const Status& b) {
    return gravity(a) < gravity(b);
  });
  std::string text = "Connect: no broker answers. Tried";
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::string_view cause = Message(causes[i]);
    // ConnectUnix's messages name the path already.
    text += cause.find(candidates[i].path) != std::string_view::npos
                ? fmt::format("{} {}", i == 0 ? ":" : ";", cause)
                : fmt::format("{} {}: {}", i == 0 ? ":" : ";", candidates[i].path, cause);
  }
  text += candidates.front().named
              ? fmt::format(". Start one: tensorbrokerd --socket {}", candidates.front().path)
              : std::string(
                    ". Start one: tensorbrokerd, or tensorctl serve; or name its socket by "
                    "$TENSORBROKER_SOCKET");
  return MakeStatus(gravest->code(), text);
}

}  // namespace tensorbroker::internal
