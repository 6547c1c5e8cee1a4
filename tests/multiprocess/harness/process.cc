#include "tests/multiprocess/harness/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "tensorbroker/ipc/process.h"
#include "tests/multiprocess/harness/launch.h"
#include "tests/support/broker_process.h"

namespace tensorbroker::testing {

Process::~Process() {
  if (pidfd_.valid()) Kill();
}

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  if (pidfd_.valid()) Kill();
  pid_ = other.pid_;
  pidfd_ = std::move(other.pidfd_);
  stderr_ = std::move(other.stderr_);
  return *this;
}

Process Process::Start(const std::string& program, std::vector<std::string> args,
                       const LaunchOptions& options) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe");
  args.insert(args.begin(), program);
  const std::vector<std::string> launch = LaunchWords(options);
  args.insert(args.begin(), launch.begin(), launch.end());

  std::vector<std::string> env = options.env;  // getenv takes the first of a name
  for (char** entry = environ; *entry != nullptr; ++entry) env.emplace_back(*entry);
  std::vector<char*> argv;
  std::vector<char*> envp;
  for (std::string& word : args) argv.push_back(word.data());
  for (std::string& entry : env) envp.push_back(entry.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);

  Process process;
  process.stderr_ = Fd(memfd_create("stderr", MFD_CLOEXEC));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, process.stderr_.get(), 2);
  if (options.inherit >= 0) {  // clears close-on-exec
    posix_spawn_file_actions_adddup2(&actions, options.inherit, options.inherit);
  }
  const int error = posix_spawn(&process.pid_, launch.empty() ? program.c_str() : self.c_str(), &actions,
                                nullptr, argv.data(), envp.data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    ADD_FAILURE() << "cannot start " << program << ": " << strerror(error);
    return process;
  }
  if (StatusOr<Fd> pidfd = PidfdOpen(process.pid_); pidfd.ok()) {
    process.pidfd_ = *std::move(pidfd);
  } else {
    ADD_FAILURE() << pidfd.status();
  }
  return process;
}

Process Process::StartChild(const std::string& name, std::vector<std::string> args, const Fd& channel,
                            LaunchOptions options) {
  args.insert(args.begin(), {"--tb-child", name, std::to_string(channel.get())});
  options.inherit = channel.get();
  return Start(std::filesystem::read_symlink("/proc/self/exe"), std::move(args), options);
}

Process Process::StartDaemon(std::vector<std::string> args, LaunchOptions options) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0) ADD_FAILURE() << strerror(errno);
  const Fd ready(ends[0]);
  Fd theirs(ends[1]);
  args.insert(args.end(), {"--ready-fd", std::to_string(theirs.get())});
  options.inherit = theirs.get();
  Process daemon = Start(DaemonPath(), std::move(args), options);
  theirs.reset();
  pollfd wait{ready.get(), POLLIN, 0};
  EXPECT_EQ(poll(&wait, 1, static_cast<int>(kHang / 1ms)), 1)
      << "tensorbrokerd is not ready: " << daemon.Stderr();
  char byte = 0;
  // No byte: it is ending. Its end is what the caller looks at then.
  if (read(ready.get(), &byte, 1) != 1) (void)PidfdWait(daemon.pidfd_.get(), kHang);
  return daemon;
}

void Process::Signal(int signal) const {
  if (valid()) (void)PidfdSendSignal(pidfd_.get(), signal);
}

bool Process::Ended() const { return !valid() || PidfdHasEnded(pidfd_.get()); }

Exit Process::Wait(Duration limit) {
  Exit exit;
  int status = 0;
  if (!valid() || !PidfdWait(pidfd_.get(), limit) || waitpid(pid_, &status, 0) != pid_) return exit;
  pidfd_.reset();
  exit.in_time = true;
  if (WIFEXITED(status)) exit.code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) exit.signal = WTERMSIG(status);
  return exit;
}

void Process::Kill() {
  Signal(SIGKILL);
  (void)Wait();
}

void Process::Stop() {
  if (!valid()) return;
  Signal(SIGTERM);
  const Exit exit = Wait();
  EXPECT_TRUE(exit.in_time) << "process " << pid_ << " does not end at SIGTERM";
  EXPECT_EQ(exit.code, 0) << "signal " << exit.signal << "; stderr:\n" << Stderr();
}

std::string Process::Stderr() const {
  std::string text;
  char buffer[4096];
  ssize_t n = 0;
  while (stderr_.valid() &&
         (n = pread(stderr_.get(), buffer, sizeof buffer, static_cast<off_t>(text.size()))) > 0) {
    text.append(buffer, static_cast<size_t>(n));
  }
  return text;
}

}  // namespace tensorbroker::testing
