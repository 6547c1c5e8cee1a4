#include "tensorbroker/client/daemon_program.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string_view>
#include <system_error>
#include <utility>

#include "tensorbroker/base/units.h"
#include "tensorbroker/ipc/process.h"

extern char** environ;

namespace tensorbroker::internal {

namespace {

namespace fs = std::filesystem;

constexpr char kDaemon[] = "tensorbrokerd";
constexpr Duration kEndTimeout = std::chrono::seconds(2);  // between SIGTERM and SIGKILL

bool IsProgram(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string LastWords(int log) {
  constexpr size_t kMax = 600;
  const off_t written = lseek(log, 0, SEEK_CUR);  // the file itself may be larger
  if (written <= 0) return "it wrote nothing";
  const auto size = static_cast<size_t>(written);
  std::string text(std::min(size, kMax), '\0');
  const ssize_t got = pread(log, text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Starts `argv` with `log` as its stderr and `inherited` open under their own numbers.
StatusOr<pid_t> Spawn(std::vector<std::string>& argv, int log, std::initializer_list<int> inherited) {
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log, 2);
  // Onto themselves: that clears close-on-exec.
  for (const int fd : inherited) posix_spawn_file_actions_adddup2(&actions, fd, fd);
  // Ctrl-C in a terminal is for this process; the broker ends after it.
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigset_t standard;
  sigemptyset(&none);
  sigemptyset(&standard);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) sigaddset(&standard, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error == EAGAIN) {
    return ResourceExhaustedError(
        fmt::format("posix_spawn {}: no process is left to this user (`ulimit -u`) or cgroup", argv[0]));
  }
  if (error != 0) return ErrnoStatus(error, "posix_spawn " + argv[0]);
  return pid;
}

enum class Start { kReady, kEnded, kLate };

// Whether a byte comes through `ready` before its end and in time.
Start AwaitReady(int ready, Duration timeout) {
  const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), timeout);
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::Real().Now());
    pollfd wait{ready, POLLIN, 0};
    const int polled = poll(&wait, 1, static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000)));
    char byte = 0;
    if (polled == 1) return read(ready, &byte, 1) == 1 ? Start::kReady : Start::kEnded;
    if (polled < 0 && errno != EINTR) return Start::kEnded;
    if (Clock::Real().Now() >= deadline) return Start::kLate;
  }
}

}  // namespace

StatusOr<std::string> FindDaemon(const std::string& wanted) {
  if (!wanted.empty()) {
    if (IsProgram(wanted)) return wanted;
    return NotFoundError(fmt::format("{} is no executable file", wanted));
  }
  if (const char* named = std::getenv("TENSORBROKER_DAEMON"); named != nullptr && *named != '\0') {
    if (IsProgram(named)) return std::string(named);
    return NotFoundError(fmt::format("$TENSORBROKER_DAEMON is {}, which is no executable file", named));
  }
  std::vector<std::string> places;
  std::error_code ignored;
  if (const fs::path self = fs::read_symlink("/proc/self/exe", ignored); !self.empty()) {
    places.push_back((self.parent_path() / kDaemon).string());
  }
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&FindDaemon), &library) != 0 && library.dli_fname != nullptr) {
    const fs::path folder = fs::absolute(library.dli_fname, ignored).parent_path();
    places.push_back((folder / kDaemon).string());
    places.push_back((folder.parent_path() / "bin" / kDaemon).string());
  }
  if (const char* path = std::getenv("PATH")) {
    std::string_view rest = path;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(':'), rest.size());
      if (end > 0) places.push_back(fmt::format("{}/{}", rest.substr(0, end), kDaemon));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  for (const std::string& place : places) {
    if (IsProgram(place)) return place;
  }
  return NotFoundError(fmt::format(
      "no {} beside this program ({}), beside this library, or in $PATH; install it, or name it by "
      "$TENSORBROKER_DAEMON",
      kDaemon, places.empty() ? "unknown" : places.front()));
}

StatusOr<StartedDaemon> StartDaemon(std::vector<std::string> argv, const Fd& log, Duration timeout) {
  // So that the broker knows when this process ends: PR_SET_PDEATHSIG would fire when the thread that calls this does.
  TB_ASSIGN_OR_RETURN(const Fd self, PidfdOpen(getpid()));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2");
  const Fd ready_read(ends[0]);
  Fd ready_write(ends[1]);
  argv.insert(argv.end(), {"--ready-fd", std::to_string(ready_write.get()), "--parent-pidfd",
                           std::to_string(self.get())});
  StartedDaemon daemon;
  TB_ASSIGN_OR_RETURN(daemon.pid, Spawn(argv, log.get(), {ready_write.get(), self.get()}));
  ready_write.reset();
  StatusOr<Fd> pidfd = PidfdOpen(daemon.pid);
  const Start start = pidfd.ok() ? AwaitReady(ready_read.get(), timeout) : Start::kEnded;
  if (start == Start::kReady) {
    daemon.pidfd = *std::move(pidfd);
    return daemon;
  }
  // Not reaped yet, so the pid is its own. A late one may have made files that it removes itself.
  kill(daemon.pid, SIGTERM);
  if (!pidfd.ok() || !PidfdWait(pidfd->get(), kEndTimeout)) kill(daemon.pid, SIGKILL);
  waitpid(daemon.pid, nullptr, 0);
  if (!pidfd.ok()) return pidfd.status();
  if (start == Start::kLate) {
    return DeadlineExceededError(fmt::format("{} (pid {}) was not ready in {}: {}", argv[0], daemon.pid,
                                             HumanDuration(timeout), LastWords(log.get())));
  }
  return UnavailableError(fmt::format("{} ended at its start: {}", argv[0], LastWords(log.get())));
}

}  // namespace tensorbroker::internal
