#include "tensorbroker/client/embedded.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/ipc/process.h"

extern char** environ;

namespace tensorbroker::internal {

namespace {

namespace fs = std::filesystem;

constexpr char kDaemon[] = "tensorbrokerd";
constexpr Duration kStartTimeout = std::chrono::seconds(10);
constexpr Duration kEndTimeout = std::chrono::seconds(2);

// The brokers that this process started; a clean exit ends them.
struct Running {
  pid_t owner = 0;
  pid_t pid = 0;
  Fd pidfd;
  std::string directory;
};

struct RunningList {
  Mutex mutex;
  std::vector<Running> brokers TB_GUARDED_BY(mutex);
};

RunningList& AllRunning() {
  static auto* list = new RunningList;
  return *list;
}

void End(const Running& broker) {
  static_cast<void>(PidfdSendSignal(broker.pidfd.get(), SIGTERM));
  if (!PidfdWait(broker.pidfd.get(), kEndTimeout)) {
    static_cast<void>(PidfdSendSignal(broker.pidfd.get(), SIGKILL));
    PidfdWait(broker.pidfd.get(), kEndTimeout);
  }
  waitpid(broker.pid, nullptr, WNOHANG);
  std::error_code ignored;
  fs::remove_all(broker.directory, ignored);
}

void EndAll() {
  MutexLock lock(AllRunning().mutex);
  for (const Running& broker : AllRunning().brokers) {
    if (broker.owner == getpid()) End(broker);  // a forked child's exit is not the parent's
  }
  AllRunning().brokers.clear();
}

bool IsProgram(const std::string& path) {
  struct stat info {};
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(path.c_str(), X_OK) == 0;
}

std::string LastWords(int log) {
  constexpr size_t kMax = 600;
  struct stat info {};
  if (fstat(log, &info) != 0 || info.st_size == 0) return "it wrote nothing";
  const auto size = static_cast<size_t>(info.st_size);
  std::string text(std::min(size, kMax), '\0');
  const ssize_t got = pread(log, text.data(), text.size(), static_cast<off_t>(size - text.size()));
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

StatusOr<std::string> FindDaemon(const std::string& wanted) {
  if (!wanted.empty()) {
    if (IsProgram(wanted)) return wanted;
    return NotFoundError(
        fmt::format("Embedded: EmbeddedOptions::daemon names {}, which is no program", wanted));
  }
  if (const char* named = std::getenv("TENSORBROKER_DAEMON"); named != nullptr && *named != '\0') {
    if (IsProgram(named)) return std::string(named);
    return NotFoundError(fmt::format("Embedded: $TENSORBROKER_DAEMON names {}, which is no program", named));
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
  return NotFoundError(
      fmt::format("Embedded: no tensorbrokerd beside this program ({}), beside this library, or in $PATH; "
                  "install it, or name it by "
                  "$TENSORBROKER_DAEMON",
                  places.empty() ? "unknown" : places.front()));
}

StatusOr<std::string> StartEmbedded(const EmbeddedOptions& options) {
  TB_ASSIGN_OR_RETURN(const std::string daemon, FindDaemon(options.daemon));
  // So that the broker knows when this process ends: PR_SET_PDEATHSIG would fire when the thread that calls this does.
  TB_ASSIGN_OR_RETURN(const Fd self, PidfdOpen(getpid()));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return ErrnoStatus(errno, "Embedded: pipe2");
  Fd ready_read(ends[0]);
  Fd ready_write(ends[1]);
  const Fd log(memfd_create("tensorbrokerd-log", MFD_CLOEXEC));
  if (!log.valid()) return ErrnoStatus(errno, "Embedded: memfd_create");

  const char* temp = std::getenv("TMPDIR");
  std::string directory =
      fmt::format("{}/tensorbroker-embedded-XXXXXX", temp != nullptr && *temp != '\0' ? temp : "/tmp");
  if (mkdtemp(directory.data()) == nullptr) return ErrnoStatus(errno, "Embedded: mkdtemp " + directory);
  std::string socket = directory + "/broker.sock";

  std::vector<std::string> words = {daemon, "--socket", socket, "--memory", options.memory};
  if (options.capacity_bytes > 0) {
    words.insert(words.end(), {"--capacity", std::to_string(options.capacity_bytes)});
  }
  words.insert(words.end(), {"--ready-fd", std::to_string(ready_write.get()), "--parent-pidfd",
                             std::to_string(self.get())});
  words.insert(words.end(), options.arguments.begin(), options.arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, log.get(), 2);
  // Onto themselves: that clears close-on-exec.
  posix_spawn_file_actions_adddup2(&actions, ready_write.get(), ready_write.get());
  posix_spawn_file_actions_adddup2(&actions, self.get(), self.get());
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
  Running broker;
  const int error = posix_spawn(&broker.pid, daemon.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  std::error_code ignored;
  if (error != 0) {
    fs::remove_all(directory, ignored);
    return ErrnoStatus(error, "Embedded: posix_spawn " + daemon);
  }
  ready_write.reset();
  broker.owner = getpid();
  broker.directory = directory;
  StatusOr<Fd> pidfd = PidfdOpen(broker.pid);
  if (!pidfd.ok()) {
    kill(broker.pid, SIGKILL);
    waitpid(broker.pid, nullptr, 0);
    fs::remove_all(directory, ignored);
    return pidfd.status();
  }
  broker.pidfd = *std::move(pidfd);

  pollfd wait{ready_read.get(), POLLIN, 0};
  int polled = 0;
  do {
    polled =
        poll(&wait, 1,
             static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(kStartTimeout).count()));
  } while (polled < 0 && errno == EINTR);
  char byte = 0;
  if (polled == 1 && read(ready_read.get(), &byte, 1) == 1) {
    static const bool registered = std::atexit(&EndAll) == 0;
    MutexLock lock(AllRunning().mutex);
    if (registered) AllRunning().brokers.push_back(std::move(broker));
    return socket;
  }
  const bool late = polled == 0;
  End(broker);
  const std::string words_of_it = LastWords(log.get());
  if (late) {
    return DeadlineExceededError(
        fmt::format("Embedded: {} (pid {}) was not ready in 10 s: {}", daemon, broker.pid, words_of_it));
  }
  return UnavailableError(fmt::format("Embedded: {} ended at its start: {}", daemon, words_of_it));
}

}  // namespace tensorbroker::internal

namespace tensorbroker {

StatusOr<Client> Client::Embedded(EmbeddedOptions options) {
  TB_ASSIGN_OR_RETURN(const std::string socket, internal::StartEmbedded(options));
  setenv("TENSORBROKER_SOCKET", socket.c_str(), 1);
  return Connect({.socket = socket, .label = options.label});
}

}  // namespace tensorbroker
