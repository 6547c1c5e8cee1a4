#include "examples/common/children.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace tensorbroker::examples {
namespace {

std::string ThisProgram() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).string();
}

StatusOr<pid_t> SpawnProgram(const std::string& program, const std::vector<std::string>& arguments) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  std::fflush(nullptr);
  pid_t pid = 0;
  if (const int error = posix_spawn(&pid, program.c_str(), nullptr, nullptr, argv.data(), environ);
      error != 0) {
    const std::string reason = std::generic_category().message(error);
    return error == ENOENT ? NotFoundError(program + " cannot be started: " + reason)
                           : UnavailableError(program + " cannot be started: " + reason);
  }
  return pid;
}

// How a process ended, from waitid's answer; OK is exit code 0.
Status Verdict(const std::string& what, const siginfo_t& info) {
  if (info.si_code == CLD_EXITED && info.si_status == 0) return OkStatus();
  return AbortedError(what + " (pid " + std::to_string(info.si_pid) + ") " +
                      (info.si_code == CLD_EXITED ? "ended with exit code " : "was killed by signal ") +
                      std::to_string(info.si_status));
}

}  // namespace

Children::~Children() {
  Kill();
  for (Child& child : children_) {
    if (!child.ended) (void)Reap(child);
    close(child.pidfd);
  }
}

Status Children::Spawn(std::string what, std::vector<std::string> arguments) {
  arguments.push_back("--parent");
  arguments.push_back(std::to_string(getpid()));
  TB_ASSIGN_OR_RETURN(const pid_t pid, SpawnProgram(ThisProgram(), arguments));
  // A child that we have not waited for keeps its pid, so this is the right process even if it has ended already.
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (pidfd < 0) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return UnavailableError("no pidfd for " + what + ": " + std::generic_category().message(errno));
  }
  children_.push_back({std::move(what), pid, pidfd, false});
  return OkStatus();
}

Status Children::Reap(Child& child) {
  siginfo_t info{};
  while (waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(child.pidfd), &info, WEXITED) != 0 &&
         errno == EINTR) {
  }
  child.ended = true;
  return Verdict(child.what, info);
}

Status Children::Wait() {
  for (;;) {
    std::vector<pollfd> waiting;
    for (const Child& child : children_) {
      if (!child.ended) waiting.push_back({child.pidfd, POLLIN, 0});
    }
    if (waiting.empty()) return OkStatus();
    if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
    size_t next = 0;
    for (Child& child : children_) {
      if (child.ended || (waiting[next++].revents & POLLIN) == 0) continue;
      const Status status = Reap(child);
      if (status.ok()) continue;
      if (killed_) return CancelledError("the processes were ended");
      Kill();
      return status;
    }
  }
}

void Children::Kill() {
  killed_ = true;
  // By pidfd: it can only reach the child, never a later process with its pid.
  for (const Child& child : children_) syscall(SYS_pidfd_send_signal, child.pidfd, SIGKILL, nullptr, 0);
}

std::string Children::pids() const {
  std::string text;
  for (const Child& child : children_) text += (text.empty() ? "" : " ") + std::to_string(child.pid);
  return text;
}

void EndWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) std::_Exit(1);  // it ended before prctl
}

Status RunBeside(const std::string& name, const std::vector<std::string>& arguments) {
  const std::string program = std::filesystem::path(ThisProgram()).replace_filename(name).string();
  TB_ASSIGN_OR_RETURN(const pid_t pid, SpawnProgram(program, arguments));
  siginfo_t info{};
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED) != 0 && errno == EINTR) {
  }
  return Verdict(name, info);
}

}  // namespace tensorbroker::examples
