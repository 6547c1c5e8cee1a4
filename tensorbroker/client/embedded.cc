#include "tensorbroker/client/embedded.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/client/daemon_program.h"
#include "tensorbroker/ipc/directory.h"
#include "tensorbroker/ipc/process.h"

namespace tensorbroker::internal {

namespace {

namespace fs = std::filesystem;

constexpr off_t kLogBytes = 64 << 10;
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

// For the last words of a broker that cannot start, and for people (/proc/PID/fd/2): it never grows, so that a broker which
// logs for weeks takes no memory. What comes when it is full is lost.
StatusOr<Fd> MakeLog() {
  Fd log(memfd_create("tensorbrokerd-log", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!log.valid() || ftruncate(log.get(), kLogBytes) != 0 ||
      fcntl(log.get(), F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) != 0) {
    return ErrnoStatus(errno, "Embedded: make the broker's log");
  }
  return log;
}

bool Says(const std::vector<std::string>& arguments, std::string_view option) {
  return std::any_of(arguments.begin(), arguments.end(), [option](const std::string& argument) {
    return argument == option || argument.starts_with(std::string(option) + "=");
  });
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

}  // namespace

StatusOr<std::string> StartEmbedded(const EmbeddedOptions& options) {
  const StatusOr<std::string> program = FindDaemon(options.daemon);
  if (!program.ok()) return Annotate(program.status(), "Embedded");
  TB_ASSIGN_OR_RETURN(const Fd log, MakeLog());

  const char* temp = std::getenv("TMPDIR");
  std::string directory =
      fmt::format("{}/tensorbroker-embedded-XXXXXX", temp != nullptr && *temp != '\0' ? temp : "/tmp");
  if (mkdtemp(directory.data()) == nullptr) return ErrnoStatus(errno, "Embedded: mkdtemp " + directory);
  std::string socket = directory + "/broker.sock";

  std::vector<std::string> argv = {*program, "--socket", socket, "--memory", options.memory};
  if (options.capacity_bytes > 0) {
    argv.insert(argv.end(), {"--capacity", std::to_string(options.capacity_bytes)});
  }
  argv.insert(argv.end(), options.arguments.begin(), options.arguments.end());
  const bool configured = Says(options.arguments, "--config");
  if (!configured && !Says(options.arguments, "--instance")) {
    argv.insert(argv.end(), {"--instance", fmt::format("{}{:016x}", kEmbeddedInstance, RandomNonZero64())});
  }
  if (!configured && !Says(options.arguments, "--log-level")) {
    argv.insert(argv.end(), {"--log-level", "warning"});
  }
  StatusOr<StartedDaemon> daemon = StartDaemon(std::move(argv), log, kStartTimeout);
  if (!daemon.ok()) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
    return Annotate(daemon.status(), "Embedded");
  }
  static const bool registered = std::atexit(&EndAll) == 0;
  MutexLock lock(AllRunning().mutex);
  if (registered) {
    AllRunning().brokers.push_back({getpid(), daemon->pid, std::move(daemon->pidfd), directory});
  }
  return socket;
}

}  // namespace tensorbroker::internal

namespace tensorbroker {

StatusOr<Client> Client::Embedded(EmbeddedOptions options) {
  TB_ASSIGN_OR_RETURN(const std::string socket, internal::StartEmbedded(options));
  setenv("TENSORBROKER_SOCKET", socket.c_str(), 1);
  return Connect({.socket = socket, .label = options.label});
}

}  // namespace tensorbroker
