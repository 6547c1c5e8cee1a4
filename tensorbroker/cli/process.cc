#include "tensorbroker/cli/process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/ipc/peer.h"
#include "tensorbroker/ipc/process.h"
#include "tensorbroker/ipc/socket.h"

extern char** environ;

namespace tensorbroker::cli {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& argv) {
  std::vector<char*> pointers;
  for (std::string& word : argv) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

Status StartError(const std::string& program, int error) {
  const std::string message =
      fmt::format("{} cannot be started: {}", Printable(program), std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return NotFoundError(message);
  if (error == EACCES || error == EPERM || error == ENOEXEC) return PermissionDeniedError(message);
  return UnavailableError(message);
}

}  // namespace

Status Exec(std::vector<std::string> argv) {
  const std::vector<char*> pointers = Pointers(argv);
  execv(pointers[0], pointers.data());
  return StartError(argv[0], errno);
}

StatusOr<Stopped> StopBroker(const Client& client, Duration timeout) {
  // By the kernel's word: the pid that the broker says may be another process's here (another pid namespace). Before the
  // request: a process that is gone already has no pidfd.
  TB_ASSIGN_OR_RETURN(const Fd socket, ConnectUnix(client.socket(), timeout));
  const StatusOr<PeerIdentity> broker = IdentifyPeer(socket.get());
  TB_ASSIGN_OR_RETURN(const int32_t pid, client.inspector().Stop());
  if (!broker.ok()) return Stopped{pid, false};
  return Stopped{broker->pid > 0 ? broker->pid : pid, PidfdWait(broker->pidfd.get(), timeout)};
}

Job::Job() {
  sigemptyset(&handed_on_);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCHLD}) {
    sigaddset(&handed_on_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &handed_on_, &before_);
}

StatusOr<int> Job::Run(std::vector<std::string> argv) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setsigmask(&attributes, &before_);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  const std::vector<char*> pointers = Pointers(argv);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, pointers[0], nullptr, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) return StartError(argv[0], error);
  while (true) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&handed_on_, &info);
    if (signal < 0) continue;  // EINTR
    if (signal == SIGCHLD) {
      int status = 0;
      if (waitpid(pid, &status, WNOHANG) != pid) continue;  // another child, or a stop
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    // A terminal has already sent its own to the command, which is of the same group.
    if (info.si_code != SI_KERNEL) kill(pid, signal);
  }
}

}  // namespace tensorbroker::cli
