// Where a tensorbrokerd is looked for.
#include "tensorbroker/client/daemon_program.h"

#include <gmock/gmock.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/ipc/scratch.h"
#include "tests/support/broker_process.h"

namespace tensorbroker::internal {
namespace {

using ::tensorbroker::testing::ScratchDirectory;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class DaemonProgram : public ::testing::Test {
 protected:
  void SetUp() override { unsetenv("TENSORBROKER_DAEMON"); }
  ~DaemonProgram() override { unsetenv("TENSORBROKER_DAEMON"); }
  std::string Program(const std::string& name) {
    scratch_.Write(name, "#!/bin/sh\necho these are my last words >&2\nexit 3\n");
    chmod((scratch_ / name).c_str(), 0755);
    return scratch_ / name;
  }
  ScratchDirectory scratch_;
};

TEST_F(DaemonProgram, IsTheOneAskedForElseOfTheEnvironmentElseBesideThisProgram) {
  const std::string asked = Program("asked");
  const std::string named = Program("named");
  EXPECT_THAT(FindDaemon().value_or("none"), EndsWith("/tensorbrokerd")) << "beside this test";
  setenv("TENSORBROKER_DAEMON", named.c_str(), 1);
  EXPECT_EQ(FindDaemon().value_or("none"), named);
  EXPECT_EQ(FindDaemon(asked).value_or("none"), asked);
}

TEST_F(DaemonProgram, OneThatIsNamedAndNotThereIsNotReplacedByAnother) {
  scratch_.Write("text", "no program");
  for (const std::string& path : {scratch_ / "none", scratch_ / "text", scratch_.path()}) {
    EXPECT_EQ(FindDaemon(path).status().code(), StatusCode::kNotFound) << path;
    setenv("TENSORBROKER_DAEMON", path.c_str(), 1);
    const Status status = FindDaemon().status();
    EXPECT_EQ(status.code(), StatusCode::kNotFound) << path;
    EXPECT_THAT(std::string(Message(status)), HasSubstr("$TENSORBROKER_DAEMON is " + path));
  }
}

TEST_F(DaemonProgram, OneThatEndsAtItsStartHasLastWords) {
  const Fd log(memfd_create("log", MFD_CLOEXEC));
  const Status status = StartDaemon({Program("dies")}, log, std::chrono::seconds(30)).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("these are my last words"));
  EXPECT_EQ(StartDaemon({scratch_ / "none"}, log, std::chrono::seconds(30)).status().code(),
            StatusCode::kNotFound);
}

TEST_F(DaemonProgram, OneThatIsNotReadyInTimeIsEnded) {
  scratch_.Write("sleeps", "#!/bin/sh\necho asleep >&2\nexec tail -f /dev/null\n");
  chmod((scratch_ / "sleeps").c_str(), 0755);
  const Fd log(memfd_create("log", MFD_CLOEXEC));
  const Status status = StartDaemon({scratch_ / "sleeps"}, log, std::chrono::milliseconds(300)).status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "no child is left";
}

}  // namespace
}  // namespace tensorbroker::internal
