#include "tensorbroker/ipc/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <string_view>

namespace tensorbroker {
namespace {

constexpr size_t kMaxCommandLineBytes = 256;
constexpr uint32_t kPidfsMagic = 0x50494446;  // "PIDF": pidfs, where each process has an inode of its own

// Up to `limit` bytes of a /proc file.
StatusOr<std::string> ReadProcFile(const std::string& path, size_t limit) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd.valid()) {
    // Another user's process and one that has gone are the same to the reader.
    return errno == EACCES ? NotFoundError(fmt::format("read {}: not ours to read", path))
                           : ErrnoStatus(errno, fmt::format("read {}", path));
  }
  std::string text(limit, '\0');
  size_t size = 0;
  while (size < limit) {
    const ssize_t got = read(fd.get(), text.data() + size, limit - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return ErrnoStatus(errno, fmt::format("read {}", path));
    if (got == 0) break;
    size += static_cast<size_t>(got);
  }
  text.resize(size);
  return text;
}

}  // namespace

// By syscall(2): glibc 2.36's <sys/pidfd.h> lacks extern "C", and older ones have no wrapper.
StatusOr<Fd> PidfdOpen(pid_t pid) {
  const long fd = syscall(SYS_pidfd_open, pid, 0);  // always close-on-exec
  if (fd >= 0) return Fd(static_cast<int>(fd));
  // EINVAL: no process, or a thread that leads no group; both name no process to the caller.
  if (errno == EINVAL) errno = ESRCH;
  return ErrnoStatus(errno, fmt::format("open a pidfd of pid {}", pid));
}

bool PidfdHasEnded(int pidfd) { return PidfdWait(pidfd, Duration::zero()); }

bool PidfdWait(int pidfd, Duration timeout) {
  const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), timeout);
  while (true) {
    int wait_ms = -1;
    if (deadline != TimePoint::max()) {
      const auto left = deadline - Clock::Real().Now();
      wait_ms = static_cast<int>(
          std::clamp<int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0, 1000 * 1000));
    }
    pollfd item{pidfd, POLLIN, 0};
    const int ready = poll(&item, 1, wait_ms);
    if (ready > 0) return (item.revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    if (ready < 0 && errno != EINTR) return false;
    if (deadline != TimePoint::max() && Clock::Real().Now() >= deadline) return false;
  }
}

Status PidfdSendSignal(int pidfd, int signal) {
  if (syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0) == 0) return OkStatus();
  return ErrnoStatus(errno, fmt::format("send signal {}", signal));
}

std::optional<uint64_t> PidfdInode(int pidfd) {
  struct statfs filesystem {};
  struct stat info {};
  if (fstatfs(pidfd, &filesystem) < 0 || fstat(pidfd, &info) < 0) return std::nullopt;
  if (static_cast<uint32_t>(filesystem.f_type) != kPidfsMagic)
    return std::nullopt;  // one inode for all: says nothing
  return info.st_ino;
}

StatusOr<std::string> ReadCommandLine(pid_t pid) {
  TB_ASSIGN_OR_RETURN(std::string raw,
                      ReadProcFile(fmt::format("/proc/{}/cmdline", pid), kMaxCommandLineBytes + 1));
  bool brackets = false;
  if (raw.empty()) {  // a kernel thread, or a zombie
    TB_ASSIGN_OR_RETURN(raw, ReadProcFile(fmt::format("/proc/{}/comm", pid), 64));
    brackets = true;
  }
  while (!raw.empty() && (raw.back() == '\0' || raw.back() == '\n')) raw.pop_back();
  std::string text;
  for (const char c : raw) {
    const auto byte = static_cast<unsigned char>(c);
    const std::string piece = c == '\0'                     ? " "
                              : byte < 0x20 || byte >= 0x7F ? fmt::format("\\x{:02x}", byte)
                                                            : std::string(1, c);
    if (text.size() + piece.size() > kMaxCommandLineBytes - 3) {
      text += "...";
      break;
    }
    text += piece;
  }
  return brackets ? "[" + text + "]" : text;
}

std::optional<int64_t> CountFdsOf(pid_t pid) {
  std::error_code error;
  int64_t count = pid == getpid() ? -1 : 0;  // not the one that looks
  for (std::filesystem::directory_iterator at(fmt::format("/proc/{}/fd", pid), error), end;
       !error && at != end; at.increment(error)) {
    ++count;
  }
  if (error) return std::nullopt;
  return count;
}

}  // namespace tensorbroker
