#include "tests/support/child_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <map>

extern char** environ;

namespace tensorbroker::testing {

namespace {

std::map<std::string, ChildMain>& Children() {
  static auto* children = new std::map<std::string, ChildMain>;
  return *children;
}

std::pair<Fd, Fd> MakePair() {
  int fds[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0) abort();
  return {Fd(fds[0]), Fd(fds[1])};
}

int Milliseconds(Duration timeout) {
  return static_cast<int>(std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count());
}

}  // namespace

bool Channel::Send(std::string_view message) {
  // A sequenced packet of no bytes reads as the end; so each message has one byte in front.
  const std::string packet = "." + std::string(message);
  ssize_t sent = 0;
  do {
    sent = send(fd_.get(), packet.data(), packet.size(), MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(packet.size());
}

std::optional<std::string> Channel::Receive(Duration timeout) {
  pollfd wait{fd_.get(), POLLIN, 0};
  if (poll(&wait, 1, Milliseconds(timeout)) != 1) return std::nullopt;
  std::string packet(128 * 1024, '\0');
  const ssize_t got = recv(fd_.get(), packet.data(), packet.size(), 0);
  if (got <= 0) return std::nullopt;
  return packet.substr(1, static_cast<size_t>(got) - 1);
}

bool RegisterChild(std::string name, ChildMain main) {
  return Children().emplace(std::move(name), std::move(main)).second;
}

ChildProcess ChildProcess::Fork(const std::function<int(Channel&)>& body) {
  auto [ours, theirs] = MakePair();
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) abort();
  if (pid == 0) {
    ours.reset();
    Channel channel(std::move(theirs));
    const int code = body(channel);
    const bool failed = ::testing::Test::HasFailure();
    fflush(nullptr);
    _exit(code != 0 ? code : failed ? 1 : 0);
  }
  return ChildProcess(pid, std::move(ours));
}

ChildProcess ChildProcess::Spawn(const std::string& name, std::vector<std::string> arguments,
                                 const std::string& stderr_path) {
  auto [ours, theirs] = MakePair();
  std::vector<std::string> words = {"child", "--tb-child", name, std::to_string(theirs.get())};
  for (std::string& argument : arguments) words.push_back(std::move(argument));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), theirs.get());  // clears close-on-exec
  if (!stderr_path.empty()) {
    posix_spawn_file_actions_addopen(&actions, 2, stderr_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  }
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    ADD_FAILURE() << "posix_spawn of this test: " << error;
    pid = 0;
  }
  return ChildProcess(pid, std::move(ours));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)), channel_(std::move(other.channel_)) {}

ChildProcess::~ChildProcess() { Kill(); }

int ChildProcess::Wait(Duration timeout) {
  if (pid_ == 0) return -1;
  int code = 0;
  if (WaitForExit(pid_, timeout, &code)) {
    pid_ = 0;
    return code;
  }
  Kill();
  return -1;
}

void ChildProcess::Signal(int signal) {
  if (pid_ != 0) kill(pid_, signal);
}

void ChildProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  WaitForExit(pid_);
  pid_ = 0;
}

int WaitForExit(pid_t pid) {
  int status = 0;
  pid_t got = 0;
  do {
    got = waitpid(pid, &status, 0);
  } while (got < 0 && errno == EINTR);
  if (got != pid) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool WaitForExit(pid_t pid, Duration timeout, int* code) {
  const Fd pidfd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) return false;
  pollfd wait{pidfd.get(), POLLIN, 0};
  if (poll(&wait, 1, Milliseconds(timeout)) != 1) return false;
  *code = WaitForExit(pid);
  return true;
}

// Runs the child that argv asks for; nothing where it asks for none.
std::optional<int> RunChild(int argc, char** argv) {
  if (argc < 4 || std::string_view(argv[1]) != "--tb-child") return std::nullopt;
  const auto child = Children().find(argv[2]);
  if (child == Children().end()) return 127;
  fcntl(atoi(argv[3]), F_SETFD, FD_CLOEXEC);
  Channel channel{Fd(atoi(argv[3]))};
  const int code = child->second(channel, std::vector<std::string>(argv + 4, argv + argc));
  return code != 0 ? code : ::testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace tensorbroker::testing
