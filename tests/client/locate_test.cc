#include "tensorbroker/client/locate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tensorbroker/client/client.h"
#include "tensorbroker/ipc/socket.h"

namespace tensorbroker::internal {
namespace {

using ::testing::HasSubstr;

// Sets variables for a test, and puts them back.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* before = getenv(name)) before_ = before;
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  }
  ~Environment() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST(Locate, TriesTheDefaultsInOrder) {
  const Environment socket("TENSORBROKER_SOCKET", nullptr);
  const Environment runtime("XDG_RUNTIME_DIR", "/run/user/7");
  const std::vector<SocketCandidate> candidates = CandidateSockets("");
  ASSERT_EQ(candidates.size(), 3u);
  EXPECT_EQ(candidates[0].path, "/run/user/7/tensorbroker/broker.sock");
  EXPECT_EQ(candidates[1].path, "/run/tensorbroker/broker.sock");
  EXPECT_EQ(candidates[2].path, "/tmp/tensorbroker-" + std::to_string(getuid()) + "/broker.sock");
  for (const SocketCandidate& candidate : candidates) EXPECT_FALSE(candidate.named);
}

TEST(Locate, ANamedSocketIsTheOnlyOne) {
  const Environment socket("TENSORBROKER_SOCKET", "/x/env.sock");
  ASSERT_EQ(CandidateSockets("").size(), 1u);
  EXPECT_EQ(CandidateSockets("")[0].path, "/x/env.sock");
  EXPECT_TRUE(CandidateSockets("")[0].named);
  EXPECT_EQ(CandidateSockets("/y/z.sock")[0].path, "/y/z.sock");
}

// Case S5.
TEST(Locate, OnlySelfRootAndTheSystemDirectorysOwnerMayServe) {
  constexpr auto kNone = static_cast<uid_t>(-1);
  EXPECT_TRUE(MayServe(1000, 1000, kNone));
  EXPECT_TRUE(MayServe(0, 1000, kNone));
  EXPECT_TRUE(MayServe(998, 1000, 998));
  EXPECT_FALSE(MayServe(1001, 1000, kNone));
  EXPECT_FALSE(MayServe(1001, 1000, 998));
  EXPECT_FALSE(MayServe(1001, 0, kNone));
  EXPECT_FALSE(MayServe(kNone, 1000, kNone));
}

// Case S5: needs root, to become somebody else.
TEST(Locate, ASquattersSocketIsRefusedUnlessNamed) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::string directory = "/tmp/tb-locate-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  ASSERT_EQ(chmod(directory.c_str(), 0777), 0);
  const std::string path = directory + "/broker.sock";
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t squatter = fork();
  if (squatter == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(1);
    const StatusOr<Fd> listener = ListenUnix(path, {.mode = 0666});
    if (!listener.ok() || write(ready[1], "r", 1) != 1) _exit(1);
    pause();
    _exit(0);
  }
  close(ready[1]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  EXPECT_TRUE(ConnectToBroker({path, true}, std::chrono::seconds(1)).ok());
  const Status refused = ConnectToBroker({path, false}, std::chrono::seconds(1)).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(Message(refused)), HasSubstr("uid 65534"));
  kill(squatter, SIGKILL);
  waitpid(squatter, nullptr, 0);
  unlink(path.c_str());
  rmdir(directory.c_str());
}

// Case F8.
TEST(Locate, NoBrokerNamesEachSocketItsCauseAndWhatToDo) {
  const Environment socket("TENSORBROKER_SOCKET", nullptr);
  const Environment runtime("XDG_RUNTIME_DIR", "/nonexistent/run");
  const std::vector<SocketCandidate> candidates = CandidateSockets("");
  const Status status =
      NoBroker(candidates, {NotFoundError("no such file"), PermissionDeniedError("uid 7 serves there"),
                            UnavailableError("nobody listens")});
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  for (const char* part :
       {"/nonexistent/run/tensorbroker/broker.sock", "no such file", "/run/tensorbroker/broker.sock",
        "uid 7 serves there", "/tmp/tensorbroker-", "nobody listens", "tensorbrokerd"}) {
    EXPECT_THAT(std::string(Message(status)), HasSubstr(part));
  }
}

// Case F8.
TEST(Connect, AMissingSocketIsNotFoundAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const Status status = Client::Connect({.socket = "/nonexistent/broker.sock"}).status();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("/nonexistent/broker.sock"));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("tensorbrokerd --socket"));
}

// Case F8.
TEST(Connect, AnOverlongPathSaysSo) {
  const Status status = Client::Connect({.socket = "/tmp/" + std::string(120, 'x')}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("107"));
}

// Case F8: a forbidden socket. Needs root, to become somebody who may not.
TEST(Connect, AForbiddenSocketIsPermissionDenied) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root";
  std::string directory = "/tmp/tb-locate-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);  // 0700
  const pid_t other = fork();
  if (other == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(1);
    const Status status =
        ConnectToBroker({directory + "/broker.sock", true}, std::chrono::seconds(1)).status();
    _exit(status.code() == StatusCode::kPermissionDenied ? 0 : 2);
  }
  int code = 0;
  waitpid(other, &code, 0);
  EXPECT_EQ(WEXITSTATUS(code), 0);
  rmdir(directory.c_str());
}

// Case F8: a socket whose broker died is told from one that was never there.
TEST(Connect, ADeadSocketIsUnavailable) {
  std::string directory = "/tmp/tb-locate-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string path = directory + "/broker.sock";
  { ASSERT_TRUE(ListenUnix(path, {}).ok()); }
  EXPECT_EQ(Client::Connect({.socket = path}).status().code(), StatusCode::kUnavailable);
  unlink(path.c_str());
  rmdir(directory.c_str());
}

}  // namespace
}  // namespace tensorbroker::internal
