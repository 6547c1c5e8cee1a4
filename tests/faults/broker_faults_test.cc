// A broker that is not there, is not the first, is stopped, dies, or is asked for what it has not.
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/multiprocess/harness/fixture.h"

namespace tensorbroker::testing {
namespace {

class BrokerFaults : public MultiprocessTest {};

// Case F8.
TEST_F(BrokerFaults, ASecondBrokerOnTheSocketEndsAndTheFirstGoesOn) {
  StartBroker();
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  // With the same instance (by its socket) and with one that was named otherwise.
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, std::vector<std::string>{"--instance", "another"}}) {
    std::vector<std::string> args = {"--socket", socket(), "--shm-dir", broker().shm_dir()};
    args.insert(args.end(), more.begin(), more.end());
    Process second = Process::Start(DaemonPath(), args);
    const Exit exit = second.Wait();
    EXPECT_TRUE(exit.in_time);
    EXPECT_GT(exit.code, 0) << "signal " << exit.signal;
    EXPECT_NE(second.Stderr().find(fmt::format("already running, pid {}", broker().pid())), std::string::npos)
        << second.Stderr();
  }
  TB_EXPECT_OK(a.Open("again", "x"));
  TB_EXPECT_OK(StartAgent("B").Open("t", "x"));
  TB_EXPECT_OK(a.Check("t", 1));
}

// Case F8.
TEST_F(BrokerFaults, AStaleSocketAfterSigkillIsReplaced) {
  StartBroker();
  TB_ASSERT_OK(StartAgent("A").Create("t", 4096, 1).status());
  broker().Kill();
  ASSERT_TRUE(std::filesystem::is_socket(socket()));
  StopAgents();
  TB_ASSERT_OK(broker().Restart());
  Agent& b = StartAgent("B");
  TB_EXPECT_OK(b.Create("t", 4096, 1).status());
  EXPECT_EQ(Info().storages, 1u);
}

// Case F8.
TEST_F(BrokerFaults, APathOf120BytesIsAClearErrorAtStartAndAtConnect) {
  const std::string path = "/tmp/" + std::string(115, 'p');
  Process broker = Process::Start(DaemonPath(), {"--socket", path});
  const Exit exit = broker.Wait();
  EXPECT_GT(exit.code, 0) << "signal " << exit.signal;
  EXPECT_NE(broker.Stderr().find("120"), std::string::npos) << broker.Stderr();
  EXPECT_NE(broker.Stderr().find("107"), std::string::npos) << broker.Stderr();
  TB_EXPECT_ERROR(Client::Connect({.socket = path}), kInvalidArgument, "120", "107");
}

// Case F8.
TEST_F(BrokerFaults, AMissingSocketIsAnErrorWithTheCauseWithinTwoSeconds) {
  const std::string path = MakeDirectory() + "/none.sock";
  const TimePoint start = Clock::Real().Now();
  TB_EXPECT_ERROR(Client::Connect({.socket = path}), kNotFound, path);
  EXPECT_LE(Clock::Real().Now() - start, 2s);
}

// Case F8: a socket that nobody listens on any more.
TEST_F(BrokerFaults, ADeadBrokersSocketIsAnErrorWithTheCauseWithinTwoSeconds) {
  StartBroker();
  broker().Kill();
  const TimePoint start = Clock::Real().Now();
  TB_EXPECT_ERROR(Client::Connect({.socket = socket()}), kUnavailable, socket());
  EXPECT_LE(Clock::Real().Now() - start, 2s);
}

// Case F8.
TEST_F(BrokerFaults, AForbiddenSocketIsAnErrorWithTheCauseWithinTwoSeconds) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  const std::string shm = MakeDirectory("/dev/shm");
  Process daemon = Process::StartDaemon({"--socket", socket(), "--shm-dir", shm, "--socket-mode", "0600"});
  ASSERT_FALSE(daemon.Ended()) << daemon.Stderr();
  Agent& nobody = StartAgent({.launch = {.uid = 65534}, .connect = false});
  const TimePoint start = Clock::Real().Now();
  TB_EXPECT_ERROR(nobody.Connect(socket()), kPermissionDenied, socket());
  EXPECT_LE(Clock::Real().Now() - start, 2s * kSlack);
  DropClient();
  StopAgents();
  daemon.Stop();
}

// Case F7, without the recovery of names: what is mapped stays, and the next call says what happened.
TEST_F(BrokerFaults, MappedTensorsOutliveAKilledBrokerAndCallsSayThatItIsGone) {
  StartBroker();
  Agent& a = StartAgent({.socket = socket(), .label = "A", .deadline = 1s});
  TB_ASSERT_OK(a.Create("t", kMiB, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  broker().Kill();
  TB_EXPECT_OK(a.Check("t", 1));
  TB_EXPECT_OK(a.Write("t", 2));
  TB_EXPECT_OK(a.Check("t", 2));
  const TimePoint start = Clock::Real().Now();
  TB_EXPECT_ERROR(a.Open("u", "x"), kUnavailable);
  EXPECT_LE(Clock::Real().Now() - start, 2s * kSlack);
  TB_EXPECT_OK(a.Check("t", 2));
  TB_EXPECT_OK(a.Drop("t"));
  a.Finish();  // neither its drop nor its end waits for a broker
}

// Case F7: ids of the broker before name nothing of the next one, and a process can connect to it.
TEST_F(BrokerFaults, AClientOfAKilledBrokerConnectsToTheNextOne) {
  StartBroker();
  Agent& a = StartAgent({.socket = socket(), .label = "A", .deadline = 10s});
  const StatusOr<StorageId> old = a.Create("old", kMiB, 1);
  TB_ASSERT_OK(old.status());
  broker().Kill();
  TB_ASSERT_OK(broker().Restart());
  TB_EXPECT_ERROR(a.Create("new", kMiB, 2), kUnavailable);
  TB_ASSERT_OK(a.Connect(socket(), "A", 10s));
  TB_ASSERT_OK(a.Create("new", kMiB, 2).status());
  TB_EXPECT_ERROR(a.Attach("none", *old), kNotFound, ToString(*old));
  TB_EXPECT_OK(a.Check("old", 1));  // its mapping is its own
  TB_EXPECT_OK(a.Drop("old"));      // a stale release touches nothing
  TB_EXPECT_OK(a.Flush());
  TB_EXPECT_OK(a.Publish("new", "x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("t", "x"));
  TB_EXPECT_OK(b.Check("t", 2));
  EXPECT_EQ(Info().storages, 1u);
}

// Case P4 (control calls).
TEST_F(BrokerFaults, ACallToAStoppedBrokerEndsAtItsDeadlineAndNamesCallAndPid) {
  StartBroker();
  Agent& a = StartAgent({.socket = socket(), .label = "A", .deadline = 300ms * kSlack});
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  broker().Pause();
  const std::string pid = std::to_string(broker().pid());
  for (const std::vector<std::string>& call : {std::vector<std::string>{"create", "u", "4096", "1"},
                                               {"open", "u", "x", "0", "ro"},
                                               {"publish", "t", "y", ""},
                                               {"unpublish", "x"},
                                               {"export", "t"},
                                               {"flush"}}) {
    const TimePoint start = Clock::Real().Now();
    TB_EXPECT_ERROR(a.Do(call), kDeadlineExceeded, pid);
    const Duration took = Clock::Real().Now() - start;
    EXPECT_GE(took, 300ms * kSlack) << call[0];
    EXPECT_LE(took, 1500ms * kSlack) << call[0];
  }
  broker().Resume();
  TB_EXPECT_OK(a.Open("u", "x"));
  TB_EXPECT_OK(a.Check("u", 1));
}

// Case P4: grants whose replies came too late are given back.
TEST_F(BrokerFaults, WhatALateReplyGrantedIsGivenBack) {
  StartBroker();
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent({.socket = socket(), .label = "A", .deadline = 200ms * kSlack});
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  for (int i = 0; i < 5; ++i) {
    broker().Pause();
    TB_EXPECT_ERROR(a.Create("late", kMiB, 2), kDeadlineExceeded);
    broker().Resume();
  }
  TB_ASSERT_OK(a.Drop("t"));
  TB_ASSERT_OK(a.Flush());
  EXPECT_TRUE(BooksAt(u0));
  EXPECT_EQ(Info().storages, 0u);
}

// Case F9.
TEST_F(BrokerFaults, ABrokerWithoutGpusSaysWhyItHasNoCudaMemory) {
  StartBroker();
  const BrokerInfo info = Info();
  ASSERT_TRUE(info.gpus.empty());
  EXPECT_FALSE(info.gpu_note.empty());
  TB_EXPECT_ERROR(
      client().Empty({4}, DType::kFloat32, {.device = Device{.type = DeviceType::kCuda, .index = 0}}),
      kUnimplemented, "cuda");
  EXPECT_EQ(Info().storages, 0u);
}

// A signal that ends it leaves nothing; the fixture looks.
TEST_F(BrokerFaults, SigtermEndsItWithClientsConnectedAndWaiting) {
  StartBroker();
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", kMiB, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  b.Begin({"open", "t", "never", std::to_string(Duration(60s).count()), "ro"});
  EventLog events(client());
  const TimePoint start = Clock::Real().Now();
  EXPECT_EQ(broker().Stop(), 0);
  EXPECT_LE(Clock::Real().Now() - start, 5s * kSlack);
  TB_EXPECT_ERROR(b.End(), kUnavailable);
  EXPECT_FALSE(std::filesystem::exists(socket()));
  TB_EXPECT_OK(a.Check("t", 1));
}

}  // namespace
}  // namespace tensorbroker::testing
