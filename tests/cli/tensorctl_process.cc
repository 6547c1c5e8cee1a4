#include "tests/cli/tensorctl_process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "tests/support/child_process.h"

extern char** environ;

namespace tensorbroker::cli {
namespace {

constexpr std::chrono::seconds kDeadline{60};

struct Ends {
  Fd read;
  Fd write;
};

Ends Pipe() {
  int fds[2] = {-1, -1};
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {Fd(fds[0]), Fd(fds[1])};
}

// 70 columns, as a terminal has them.
Ends Terminal() {
  const int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
  EXPECT_EQ(grantpt(master), 0);
  EXPECT_EQ(unlockpt(master), 0);
  char name[64];
  EXPECT_EQ(ptsname_r(master, name, sizeof name), 0);
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 70;
  EXPECT_EQ(ioctl(master, TIOCSWINSZ, &size), 0);
  return {Fd(master), Fd(open(name, O_RDWR | O_NOCTTY | O_CLOEXEC))};
}

// Appends what is there to `buffer`; false at the end. A terminal ends with EIO.
bool ReadSome(Fd& fd, std::string& buffer) {
  char bytes[4096];
  const ssize_t got = read(fd.get(), bytes, sizeof bytes);
  if (got <= 0) {
    fd.reset();
    return false;
  }
  buffer.append(bytes, static_cast<size_t>(got));
  return true;
}

// True where one of them can be read within the deadline.
bool WaitReadable(std::vector<pollfd> polls) {
  const int ready =
      poll(polls.data(), polls.size(), static_cast<int>(std::chrono::milliseconds(kDeadline).count()));
  EXPECT_GT(ready, 0) << "nothing came within the deadline";
  return ready > 0;
}

}  // namespace

std::string TensorctlPath() { return TENSORBROKER_TEST_TENSORCTL; }

TensorctlProcess::TensorctlProcess(std::vector<std::string> arguments, std::vector<std::string> environment,
                                   Stdout out, const std::string& program) {
  Ends out_ends = out == Stdout::kTerminal70 ? Terminal() : Pipe();
  Ends err_ends = Pipe();
  std::vector<std::string> words = {program.empty() ? TensorctlPath() : program};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  for (std::string& variable : environment) envp.push_back(variable.data());
  for (char** variable = environ; *variable != nullptr; ++variable) {
    bool replaced = std::strncmp(*variable, "COLUMNS=", 8) == 0;  // the tester's own
    for (const std::string& ours : environment) {
      replaced = replaced || std::strncmp(*variable, ours.c_str(), ours.find('=') + 1) == 0;
    }
    if (!replaced) envp.push_back(*variable);
  }
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (out == Stdout::kFull) {
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/full", O_WRONLY, 0);
  } else {
    posix_spawn_file_actions_adddup2(&actions, out_ends.write.get(), 1);
  }
  posix_spawn_file_actions_adddup2(&actions, err_ends.write.get(), 2);
  EXPECT_EQ(posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()), 0) << argv[0];
  posix_spawn_file_actions_destroy(&actions);
  out_ = std::move(out_ends.read);
  err_ = std::move(err_ends.read);
}

TensorctlProcess::~TensorctlProcess() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  testing::WaitForExit(pid_);
}

std::string TensorctlProcess::ReadLine(Fd& fd, std::string& buffer) {
  size_t newline = 0;
  while ((newline = buffer.find('\n')) == std::string::npos) {
    if (!fd.valid() || !WaitReadable({{fd.get(), POLLIN, 0}}) || !ReadSome(fd, buffer)) return "";
  }
  std::string line = buffer.substr(0, newline);
  buffer.erase(0, newline + 1);
  return line;
}

void TensorctlProcess::Signal(int signal) { kill(pid_, signal); }

Result TensorctlProcess::Wait() {
  while (out_.valid() || err_.valid()) {
    std::vector<pollfd> polls;
    if (out_.valid()) polls.push_back({out_.get(), POLLIN, 0});
    if (err_.valid()) polls.push_back({err_.get(), POLLIN, 0});
    const int ready =
        poll(polls.data(), polls.size(), static_cast<int>(std::chrono::milliseconds(kDeadline).count()));
    if (ready <= 0) {
      ADD_FAILURE() << "tensorctl did not end within the deadline";
      kill(pid_, SIGKILL);
      break;
    }
    for (const pollfd& poll_fd : polls) {
      if (poll_fd.revents == 0) continue;
      if (poll_fd.fd == out_.get()) {
        ReadSome(out_, out_text_);
      } else {
        ReadSome(err_, err_text_);
      }
    }
  }
  Result result;
  if (!testing::WaitForExit(pid_, kDeadline, &result.code)) {
    ADD_FAILURE() << "tensorctl did not end within the deadline";
    kill(pid_, SIGKILL);
    testing::WaitForExit(pid_);
  }
  pid_ = 0;
  result.out = std::move(out_text_);
  result.err = std::move(err_text_);
  return result;
}

Result Tensorctl(std::vector<std::string> arguments, std::vector<std::string> environment, Stdout out) {
  return TensorctlProcess(std::move(arguments), std::move(environment), out).Wait();
}

}  // namespace tensorbroker::cli
