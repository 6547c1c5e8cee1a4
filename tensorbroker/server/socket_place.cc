#include "tensorbroker/server/socket_place.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <utility>
#include <vector>

#include "tensorbroker/base/hash.h"
#include "tensorbroker/ipc/socket.h"

namespace tensorbroker {
namespace {

constexpr char kRunDirectory[] = "/run/tensorbroker";
constexpr char kSocketName[] = "broker.sock";

// A directory that the user named: it may be shared, but nobody else may swap what is in it. A missing one is made;
// `*made` says so.
StatusOr<Fd> OpenGivenDirectory(const std::string& path, mode_t mode, bool* made) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) {
    if (errno != ENOENT) return ErrnoStatus(errno, "socket directory " + path);
    *made = true;
    return OpenPrivateDirectory(path, mode, Create::kYes);
  }
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return PermissionDeniedError(
        fmt::format("socket directory {}: it belongs to uid {}, who could put another socket in this one's "
                    "place; choose a "
                    "directory of your own",
                    path, info.st_uid));
  }
  // What is checked is what is used: one descriptor, whatever becomes of the path.
  Fd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return ErrnoStatus(errno, "socket directory " + path);
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, "socket directory " + path);
  if (info.st_uid != geteuid() && info.st_uid != 0) {
    return PermissionDeniedError(
        fmt::format("socket directory {}: the link leads to a directory of uid {}", path, info.st_uid));
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return PermissionDeniedError(
        fmt::format("socket directory {}: others may write to it (mode {:04o}) and put another socket in "
                    "this one's place; "
                    "chmod go-w it, or choose another",
                    path, info.st_mode & 07777));
  }
  return fd;
}

}  // namespace

StatusOr<SocketPlace> SocketPlace::Claim(const std::string& path, std::optional<gid_t> group) {
  struct Place {
    std::string directory;
    mode_t mode;
    bool given;
  };
  const mode_t mode = group ? 0750 : 0700;
  std::vector<Place> places;
  std::string name = kSocketName;
  if (!path.empty()) {
    TB_RETURN_IF_ERROR(CheckSocketPath(path));
    const size_t slash = path.rfind('/');
    name = slash == std::string::npos ? path : path.substr(slash + 1);
    if (name.empty()) return InvalidArgumentError(fmt::format("socket {}: a file's name is missing", path));
    places.push_back({slash == std::string::npos ? "."
                      : slash == 0               ? "/"
                                                 : path.substr(0, slash),
                      mode, true});
  } else {
    const char* const runtime = getenv("XDG_RUNTIME_DIR");
    if (geteuid() != 0 && runtime != nullptr && runtime[0] == '/') {
      places.push_back({std::string(runtime) + "/tensorbroker", mode, false});
    }
    places.push_back({kRunDirectory, 0755, false});
    places.push_back({fmt::format("/tmp/tensorbroker-{}", geteuid()), mode, false});
  }
  Status refused;
  for (const Place& place : places) {
    bool ours = !place.given;  // to be given to the group
    StatusOr<Fd> directory = place.given ? OpenGivenDirectory(place.directory, place.mode, &ours)
                                         : OpenPrivateDirectory(place.directory, place.mode, Create::kYes);
    if (!directory.ok()) {
      refused = directory.status();
      continue;
    }
    if (group && ours && fchown(directory->get(), static_cast<uid_t>(-1), *group) != 0) {
      return ErrnoStatus(errno,
                         fmt::format("socket directory {}: giving it to group {}", place.directory, *group));
    }
    char canonical[PATH_MAX];
    if (realpath(place.directory.c_str(), canonical) == nullptr) {
      return ErrnoStatus(errno, "socket directory " + place.directory);
    }
    const std::string full = fmt::format("{}/{}", canonical[1] == '\0' ? "" : canonical, name);
    TB_RETURN_IF_ERROR(CheckSocketPath(full));
    StatusOr<LockFile> lock = LockFile::Acquire(*directory, name + ".lock");
    if (!lock.ok()) return Annotate(lock.status(), "socket " + full);
    return SocketPlace(full, *std::move(directory), *std::move(lock));
  }
  return refused;
}

SocketPlace::~SocketPlace() {
  if (!directory_.valid()) return;
  RemoveSocket();
  unlinkat(directory_.get(), (base() + ".lock").c_str(), 0);
}

StatusOr<Fd> SocketPlace::Listen(std::optional<mode_t> mode, std::optional<gid_t> group) {
  ListenOptions options;
  options.mode = mode.value_or(group ? 0660 : 0600);
  options.group = group;
  options.backlog = 1024;
  TB_ASSIGN_OR_RETURN(Fd listener, ListenUnix(path_, options));
  listening_ = true;
  return listener;
}

void SocketPlace::RemoveSocket() {
  if (std::exchange(listening_, false)) unlinkat(directory_.get(), base().c_str(), 0);
}

std::string SocketPlace::InstanceName() const { return fmt::format("{:016x}", Fnv1a(path_)); }

}  // namespace tensorbroker
