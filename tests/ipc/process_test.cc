#include "tensorbroker/ipc/process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

namespace tensorbroker {
namespace {

using std::chrono::seconds;
using ::testing::HasSubstr;

// A child that waits to be killed.
pid_t StartSleeper() {
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (true) pause();
  }
  return pid;
}

TEST(Processes, APidfdTellsTheEnd) {
  const pid_t pid = StartSleeper();
  const StatusOr<Fd> pidfd = PidfdOpen(pid);
  ASSERT_TRUE(pidfd.ok()) << pidfd.status();
  EXPECT_EQ(fcntl(pidfd->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_FALSE(PidfdHasEnded(pidfd->get()));
  EXPECT_FALSE(PidfdWait(pidfd->get(), std::chrono::milliseconds(1)));
  EXPECT_TRUE(PidfdSendSignal(pidfd->get(), SIGKILL).ok());
  EXPECT_TRUE(PidfdWait(pidfd->get(), seconds(10)));
  EXPECT_TRUE(PidfdHasEnded(pidfd->get()));  // a zombie has ended
  waitpid(pid, nullptr, 0);
  EXPECT_TRUE(PidfdHasEnded(pidfd->get()));
  EXPECT_EQ(PidfdSendSignal(pidfd->get(), SIGKILL).code(), StatusCode::kNotFound);
  EXPECT_EQ(PidfdOpen(pid).status().code(), StatusCode::kNotFound);
}

// Case P5.
TEST(Processes, AStoppedOneHasNotEnded) {
  const pid_t pid = StartSleeper();
  const StatusOr<Fd> pidfd = PidfdOpen(pid);
  ASSERT_TRUE(pidfd.ok());
  ASSERT_TRUE(PidfdSendSignal(pidfd->get(), SIGSTOP).ok());
  waitpid(pid, nullptr, WUNTRACED);
  EXPECT_FALSE(PidfdHasEnded(pidfd->get()));
  ASSERT_TRUE(PidfdSendSignal(pidfd->get(), SIGKILL).ok());
  EXPECT_TRUE(PidfdWait(pidfd->get(), kForever));
  waitpid(pid, nullptr, 0);
}

TEST(Processes, InodesTellProcessesApartWhereTheKernelHasThem) {
  const StatusOr<Fd> self = PidfdOpen(getpid());
  const StatusOr<Fd> again = PidfdOpen(getpid());
  const StatusOr<Fd> parent = PidfdOpen(getppid());
  ASSERT_TRUE(self.ok() && again.ok());
  if (!PidfdInode(self->get()).has_value()) GTEST_SKIP() << "a kernel before 6.9";
  EXPECT_EQ(PidfdInode(self->get()), PidfdInode(again->get()));
  if (parent.ok()) {
    EXPECT_NE(PidfdInode(self->get()), PidfdInode(parent->get()));
  }
}

TEST(Processes, CommandLinesAreReadableBoundedAndHarmless) {
  const StatusOr<std::string> own = ReadCommandLine(getpid());
  ASSERT_TRUE(own.ok());
  EXPECT_THAT(*own, HasSubstr("ipc_test"));
  // The shell says when it runs (before that there is no command line), then waits for a word that never comes.
  int from_shell[2], to_shell[2];
  ASSERT_EQ(pipe2(from_shell, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(to_shell, O_CLOEXEC), 0);
  const Fd read_end(from_shell[0]), hold_open(to_shell[1]);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(to_shell[0], 0);
    dup2(from_shell[1], 1);
    const std::string text = "\x1b[31mred\n" + std::string(500, 'a');
    execl("/bin/sh", "sh", "-c", "echo; read line", text.c_str(), nullptr);
    _exit(1);
  }
  close(from_shell[1]);
  close(to_shell[0]);
  char byte;
  ASSERT_EQ(read(read_end.get(), &byte, 1), 1);
  const StatusOr<std::string> hostile = ReadCommandLine(pid);
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(hostile.ok());
  EXPECT_THAT(*hostile, HasSubstr("\\x1b[31mred\\x0a"));
  EXPECT_LE(hostile->size(), 256u);
  EXPECT_EQ(hostile->find('\n'), std::string::npos);
  EXPECT_EQ(ReadCommandLine(pid).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace tensorbroker
