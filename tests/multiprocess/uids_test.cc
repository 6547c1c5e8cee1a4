// Other uids: what they reach, what they see, and what they have prepared for us. Most of it needs root.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "tensorbroker/ipc/socket.h"
#include "tests/multiprocess/harness/fixture.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;
constexpr uid_t kAlice = 65531;  // uids that no account has
constexpr uid_t kBob = 65532;

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(lstat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

class Uids : public MultiprocessTest {
 protected:
  void TearDown() override {
    DropClient();
    StopAgents();
    daemon_.Stop();
    daemon_ = Process();
    MultiprocessTest::TearDown();
  }
  void Serve(std::vector<std::string> args, LaunchOptions launch = {}) {
    if (socket().empty()) UseSocket(MakeDirectory() + "/broker.sock");
    shm_ = MakeDirectory("/dev/shm");
    if (launch.uid) {
      ASSERT_EQ(chown(shm_.c_str(), *launch.uid, *launch.uid), 0);
    }
    args.insert(args.end(), {"--shm-dir", shm_});
    daemon_ = Process::StartDaemon(std::move(args), std::move(launch));
    ASSERT_FALSE(daemon_.Ended()) << daemon_.Stderr();
  }
  Agent& StartAs(uid_t uid, std::vector<gid_t> groups = {}) {
    return StartAgent({.launch = {.uid = uid, .groups = std::move(groups)}, .connect = false});
  }

  Process daemon_;
  std::string shm_;
};

// Case S2.
TEST_F(Uids, UnderUmask000FilesAre0600AndDirectories0700) {
  const std::string runtime = MakeDirectory();
  UseSocket(runtime + "/tensorbroker/broker.sock");
  // Not as root, whose default place is /run.
  LaunchOptions launch{.umask = 0, .env = {"XDG_RUNTIME_DIR=" + runtime, "TENSORBROKER_SOCKET="}};
  if (geteuid() == 0) {
    launch.uid = kAlice;
    ASSERT_EQ(chown(runtime.c_str(), kAlice, kAlice), 0);
  }
  Serve({"--memory", "shm"}, launch);
  TB_ASSERT_OK(StartAgent("A").Create("t", 4096, 1).status());
  EXPECT_EQ(ModeOf(runtime + "/tensorbroker"), 0700u);
  EXPECT_EQ(ModeOf(socket()), 0600u);
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(shm_)) {
    EXPECT_EQ(ModeOf(entry.path()), entry.is_directory() ? 0700u : 0600u) << entry.path();
    files += entry.is_regular_file();
  }
  EXPECT_GE(files, 1);
  for (const auto& entry : fs::recursive_directory_iterator(runtime + "/tensorbroker")) {
    EXPECT_EQ(ModeOf(entry.path()), 0600u) << entry.path();
  }
  // Another uid cannot reach it.
  if (geteuid() != 0) GTEST_SKIP() << "the part with another uid needs root";
  TB_EXPECT_ERROR(StartAs(kNobody).Connect(socket()), kPermissionDenied, socket());
}

// Case S2.
TEST_F(Uids, OnASocketThatIsOpenToAllTheBrokerRefusesOtherUidsAndSaysWhatWouldAdmitThem) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  Serve({"--socket", socket(), "--socket-mode", "0666"});
  TB_EXPECT_ERROR(StartAs(kNobody).Connect(socket()), kPermissionDenied, "65534", "--socket-group");
  EXPECT_EQ(Info().sessions, 1u);
}

// Cases S1 (another uid's names) and S2 (opt-in group access).
TEST_F(Uids, MembersOfTheSocketGroupShareABrokerAndSeeNothingOfEachOther) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  Serve({"--socket", socket(), "--socket-mode", "0660", "--socket-group", "nogroup"});
  Agent& alice = StartAs(kAlice, {kNobody});
  Agent& bob = StartAs(kBob, {kNobody});
  TB_ASSERT_OK(alice.Connect(socket()));
  TB_ASSERT_OK(bob.Connect(socket()));
  TB_EXPECT_ERROR(StartAs(kAlice).Connect(socket()), kPermissionDenied);  // not in the group

  const StatusOr<StorageId> id = alice.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(alice.Publish("t", "secret-plan"));
  TB_EXPECT_ERROR(bob.Open("t", "secret-plan"), kNotFound);
  TB_EXPECT_ERROR(bob.Attach("t", *id), kNotFound);
  TB_EXPECT_ERROR(bob.Delete(*id), kNotFound);
  TB_EXPECT_ERROR(bob.Do({"unpublish", "secret-plan"}), kNotFound);
  EXPECT_EQ(*bob.CountNames(""), 0);
  EXPECT_EQ(*alice.CountNames(""), 1);
  // A name that another uid has cannot be bound; nothing says whose it is.
  TB_ASSERT_OK(bob.Create("t", 4096, 2).status());
  const Status taken = bob.Publish("t", "secret-plan", "replace");
  TB_EXPECT_ERROR(taken, kPermissionDenied);
  EXPECT_EQ(Message(taken).find(std::to_string(kAlice)), std::string_view::npos) << taken;
  EXPECT_EQ(Message(taken).find(std::to_string(alice.pid())), std::string_view::npos) << taken;
  TB_EXPECT_ERROR(bob.Do({"rename", "t", "secret-plan"}), kNotFound);
  // Nor do events.
  TB_ASSERT_OK(bob.Do({"watch-and-block", ""}));
  TB_ASSERT_OK(bob.Do({"unblock"}));
  TB_ASSERT_OK(alice.Publish("t", "another-secret"));
  TB_ASSERT_OK(bob.Publish("t", "bobs"));
  TB_ASSERT_OK(bob.Do({"await-event", "bobs", "10000"}));
  std::string seen;
  TB_ASSERT_OK(bob.Do({"count-events"}, &seen));
  EXPECT_EQ(seen, "1 0");
  TB_EXPECT_OK(alice.Check("t", 1));
  // Root sees both.
  EXPECT_EQ(Info().storages, 2u);
  TB_EXPECT_OK(inspector().Stat("secret-plan").status());
}

// Case S2: a full broker names no holder of another uid.
TEST_F(Uids, ARefusalNamesNoHolderOfAnotherUid) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  Serve({"--socket", socket(), "--socket-mode", "0660", "--socket-group", "nogroup", "--capacity", "8MiB"});
  Agent& alice = StartAs(kAlice, {kNobody});
  Agent& bob = StartAs(kBob, {kNobody});
  TB_ASSERT_OK(alice.Connect(socket(), "alices-secret-label"));
  TB_ASSERT_OK(bob.Connect(socket()));
  const StatusOr<StorageId> id = alice.Create("t", 6 * kMiB, 1);
  TB_ASSERT_OK(id.status());
  const Status refused = bob.Create("t", 4 * kMiB, 1).status();
  TB_EXPECT_ERROR(refused, kResourceExhausted, "4.0 MiB");
  for (const std::string& secret :
       {std::to_string(alice.pid()), ToString(*id), std::string("alices-secret-label")}) {
    EXPECT_EQ(Message(refused).find(secret), std::string_view::npos) << refused;
  }
}

// The broker that `start` starts does not serve while `directory` is another uid's, nor while it is a link to `elsewhere`.
void ExpectRefused(const std::string& directory, mode_t mode, const std::string& elsewhere,
                   const std::function<Process()>& start) {
  const auto refused = [&](const std::string& reason) {
    Process broker = start();
    const Exit exit = broker.Wait();
    EXPECT_GT(exit.code, 0) << "signal " << exit.signal;
    EXPECT_NE(broker.Stderr().find(directory), std::string::npos) << broker.Stderr();
    EXPECT_NE(broker.Stderr().find(reason), std::string::npos) << broker.Stderr();
  };
  ASSERT_EQ(mkdir(directory.c_str(), mode), 0);
  ASSERT_EQ(chown(directory.c_str(), kNobody, kNobody), 0);
  refused("65534");
  ASSERT_EQ(rmdir(directory.c_str()), 0);
  ASSERT_EQ(symlink(elsewhere.c_str(), directory.c_str()), 0);
  refused("link");
  EXPECT_TRUE(fs::is_empty(elsewhere));
  ASSERT_EQ(unlink(directory.c_str()), 0);
}

// Case S5: the Segments' directory.
TEST_F(Uids, ADirectoryOfSegmentsThatSomeoneElseMadeIsRefused) {
  TB_REQUIRE_ROOT();
  const std::string shm = MakeDirectory("/dev/shm");
  const std::string elsewhere = MakeDirectory("/dev/shm");
  const std::string directory = shm + "/tensorbroker-0-squat";
  const std::vector<std::string> args = {
      "--socket", MakeDirectory() + "/broker.sock", "--shm-dir", shm, "--instance", "squat", "--memory",
      "shm"};
  ExpectRefused(directory, 0700, elsewhere, [&] { return Process::Start(DaemonPath(), args); });
}

// Case S5: the socket's directory, on the default path of a uid.
TEST_F(Uids, ADirectoryOfTheSocketThatSomeoneElseMadeIsRefused) {
  TB_REQUIRE_ROOT();
  const std::string directory = fmt::format("/tmp/tensorbroker-{}", kAlice);
  if (fs::exists(fs::symlink_status(directory))) GTEST_SKIP() << directory << " exists already";
  const std::string elsewhere = MakeDirectory();
  const std::string shm = MakeDirectory("/dev/shm");
  ASSERT_EQ(chown(shm.c_str(), kAlice, kAlice), 0);
  ASSERT_EQ(chown(elsewhere.c_str(), kAlice, kAlice), 0);
  ExpectRefused(directory, 0755, elsewhere, [&] {
    return Process::Start(DaemonPath(), {"--shm-dir", shm},
                          {.uid = kAlice, .env = {"XDG_RUNTIME_DIR=/nonexistent", "TENSORBROKER_SOCKET="}});
  });
}

// Case S5: the client's side.
TEST_F(Uids, AClientRefusesAnotherUidsBrokerUnlessItWasNamed) {
  TB_REQUIRE_ROOT();
  const std::string runtime = MakeDirectory();
  ASSERT_EQ(mkdir((runtime + "/tensorbroker").c_str(), 0755), 0);
  ASSERT_EQ(chown((runtime + "/tensorbroker").c_str(), kNobody, kNobody), 0);
  UseSocket(runtime + "/tensorbroker/broker.sock");
  Serve({"--socket", socket(), "--socket-mode", "0666"}, {.uid = kNobody});
  Agent& a = StartAgent(
      {.launch = {.env = {"XDG_RUNTIME_DIR=" + runtime, "TENSORBROKER_SOCKET="}}, .connect = false});
  TB_EXPECT_ERROR(a.Connect(""), kPermissionDenied, "65534", socket());
  TB_EXPECT_OK(a.Connect(socket()));
}

TB_CHILD(KeepsDescriptorsOnTheirWay) {
  const uid_t uid = static_cast<uid_t>(std::stoul(arguments[0]));
  if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) return 1;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return 1;
  const std::byte byte{};
  int count = 0;
  while (count < std::stoi(arguments[1])) {
    const StatusOr<size_t> sent = SendWithFd(pair[0], {&byte, 1}, STDIN_FILENO, MSG_DONTWAIT);
    if (!sent.ok() || *sent == 0) break;
    ++count;
  }
  channel.Send(std::to_string(count));
  channel.Receive();
  return 0;
}

// The kernel limits the descriptors of a uid that are on their way, whoever sent them.
TEST_F(Uids, DescriptorsThatOthersOfItsUidKeepOnTheirWayEndNobodysSession) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  const std::string directory = socket().substr(0, socket().rfind('/'));
  ASSERT_EQ(chown(directory.c_str(), kAlice, kAlice), 0);
  Serve({"--socket", socket(), "--memory", "memfd"}, {.uid = kAlice, .descriptors = 100});
  TB_ASSERT_OK(client().CreateStorage(4096).status());
  {
    ChildProcess other = ChildProcess::Spawn("KeepsDescriptorsOnTheirWay", {std::to_string(kAlice), "150"});
    ASSERT_EQ(other.Receive(), "150");
    TB_EXPECT_ERROR(client().CreateStorage(4096), kResourceExhausted, "on their way");
    EXPECT_EQ(Info().sessions, 1u);
    other.Send("end");
    EXPECT_EQ(other.Wait(), 0);
  }
  EXPECT_TRUE(Eventually(kHang, [&] { return client().CreateStorage(4096).ok(); }));
}

// What the broker's own uid or root may: end it.
TEST_F(Uids, OnlyTheBrokersUidAndRootStopIt) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  Serve({"--socket", socket(), "--socket-mode", "0660", "--socket-group", "nogroup"});
  Agent& bob = StartAs(kBob, {kNobody});
  TB_ASSERT_OK(bob.Connect(socket()));
  TB_EXPECT_ERROR(bob.Do({"stop-broker"}), kPermissionDenied, std::to_string(kBob));
  TB_EXPECT_OK(Info().pid == daemon_.pid() ? OkStatus() : InternalError("another broker"));
  const StatusOr<int32_t> pid = inspector().Stop();
  TB_ASSERT_OK(pid.status());
  EXPECT_EQ(*pid, daemon_.pid());
  const Exit exit = daemon_.Wait();
  EXPECT_TRUE(exit.in_time);
  EXPECT_EQ(exit.code, 0);
}

}  // namespace
}  // namespace tensorbroker::testing
