// fork, threads and the ends of processes.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "tests/multiprocess/harness/fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/fork_under_tsan.h"

namespace tensorbroker::testing {
namespace {

class Fork : public MultiprocessTest {};

// Exit code of a forked child within `limit`; -1 where it hangs (it is killed) or died by a signal.
int ExitCodeOf(pid_t child, Duration limit) {
  int code = -1;
  if (WaitForExit(child, limit, &code)) return code;
  kill(child, SIGKILL);
  WaitForExit(child);
  return -1;
}

// Connects, attaches and forks again and again, with a call before each fork. Says "ok", or what went wrong.
TB_CHILD(ForkRepeatedly) {
  const auto complain = [&](const std::string& text) {
    channel.Send(text);
    return 1;
  };
  StatusOr<Client> connected = Client::Connect({.socket = arguments.at(0)});
  if (!connected.ok()) return complain(connected.status().ToString());
  Client client = *connected;
  const StatusOr<Tensor> tensor = client.Open("x");
  if (!tensor.ok()) return complain(tensor.status().ToString());
  for (int run = 0; run < std::stoi(arguments.at(1)); ++run) {
    if (const StatusOr<Tensor> call = client.Open("x"); !call.ok()) return complain(call.status().ToString());
    const pid_t child = fork();
    if (child == 0) {
      if (FirstWrongByte(tensor->storage().bytes(), 1) >= 0) _exit(10);
      const TimePoint start = Clock::Real().Now();
      const StatusOr<Tensor> mine = client.Open("x");
      if (Clock::Real().Now() - start > 1s * kSlack) _exit(11);
      // Any call works, on a session of the child's own.
      if (!mine.ok() || FirstWrongByte(mine->storage().bytes(), 1) >= 0) _exit(12);
      if (!client.Empty({4}).ok()) _exit(13);
      if (!client.inspector().Info().ok()) _exit(14);
      _exit(0);
    }
    // The parent works on while the child lives, and after.
    if (const StatusOr<Tensor> call = client.Empty({4}); !call.ok())
      return complain(call.status().ToString());
    if (const int code = ExitCodeOf(child, 10s * kSlack); code != 0) {
      return complain(fmt::format("run {}: the child's exit code is {}", run, code));
    }
    if (FirstWrongByte(tensor->storage().bytes(), 1) >= 0) return complain("the parent reads wrong bytes");
  }
  channel.Send("ok");
  return 0;
}

// Case P1.
TEST_F(Fork, AForkedChildCallsOnASessionOfItsOwnAndTheParentWorksOn) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  StartBroker();
  StatusOr<Tensor> tensor = client().Empty({4096}, DType::kUInt8);
  TB_ASSERT_OK(tensor.status());
  FillPattern(tensor->storage().mutable_bytes(), 1);
  TB_ASSERT_OK(tensor->Publish("x"));
  const uint64_t sessions = Info().sessions;
  const int runs = LongOr(200, kSanitized ? 6 : 200);
  auto child = ChildProcess::Spawn("ForkRepeatedly", {socket(), std::to_string(runs)});
  EXPECT_EQ(child.Receive(300s), "ok");
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(Eventually(kHang, [&] { return Info().sessions == sessions; })) << Info().sessions;
  EXPECT_TRUE(Eventually(kHang, [&] { return Info().storages == 1; })) << Info().storages;
}

// A thread calls all the time while another forks children that call, too.
TB_CHILD(ForkUnderCalls) {
  StatusOr<Client> connected = Client::Connect({.socket = arguments.at(0)});
  if (!connected.ok()) return 1;
  Client client = *connected;
  std::atomic<bool> stop{false};
  std::atomic<int> calls{0};
  std::atomic<bool> failed{false};
  std::thread caller([&] {
    while (!stop) {
      const StatusOr<Tensor> opened = client.Open("x");
      const StatusOr<Tensor> created = client.Empty({16});
      if (!opened.ok() || !created.ok()) failed = true;
      ++calls;
    }
  });
  int code = 0;
  for (int round = 0; round < std::stoi(arguments.at(1)) && code == 0; ++round) {
    std::vector<pid_t> workers;
    for (int worker = 0; worker < std::stoi(arguments.at(2)); ++worker) {
      const pid_t child = fork();
      if (child == 0) {
        const StatusOr<Tensor> opened = client.Open("x");
        if (!opened.ok()) _exit(2);
        if (FirstWrongByte(opened->storage().bytes(), 1) >= 0) _exit(3);
        // A worker ends as DataLoader's do: without destructors.
        _exit(client.Empty({16}).ok() ? 0 : 4);
      }
      workers.push_back(child);
    }
    for (const pid_t worker : workers) {
      if (const int ended = ExitCodeOf(worker, 20s * kSlack); ended != 0) code = 100 + ended;
    }
  }
  stop = true;
  caller.join();
  channel.Send(fmt::format("{} {} {}", code, failed.load(), calls.load()));
  return 0;
}

// Case P2, its core: forks from one thread while another is inside a call, with gRPC's fork support off and on.
class ForkSupport : public Fork, public ::testing::WithParamInterface<const char*> {};

TEST_P(ForkSupport, WorkersForkedWhileAThreadCallsNeitherHangNorFail) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  StartBroker();
  StatusOr<Tensor> tensor = client().Empty({4096}, DType::kUInt8);
  TB_ASSERT_OK(tensor.status());
  FillPattern(tensor->storage().mutable_bytes(), 1);
  TB_ASSERT_OK(tensor->Publish("x"));
  setenv("GRPC_ENABLE_FORK_SUPPORT", GetParam(), 1);
  auto child = ChildProcess::Spawn("ForkUnderCalls",
                                   {socket(), std::to_string(LongOr(100, kSanitized ? 2 : 100)), "8"});
  unsetenv("GRPC_ENABLE_FORK_SUPPORT");
  const std::optional<std::string> said = child.Receive(600s);
  ASSERT_TRUE(said);
  EXPECT_EQ(said->rfind("0 false ", 0), 0u) << "exit code, a call failed, calls: " << *said;
  EXPECT_GT(std::stoi(said->substr(8)), 0);
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(Eventually(kHang, [&] { return Info().sessions == 1 && Info().storages == 1; }));
}
INSTANTIATE_TEST_SUITE_P(Grpc, ForkSupport, ::testing::Values("0", "1"),
                         [](const auto& value) { return std::string("ForkSupport") + value.param; });

// Tensors in every place that is destroyed late, or never.
std::vector<Tensor>& StaticTensors() {
  static std::vector<Tensor> tensors;
  return tensors;
}

TB_CHILD(ExitWithLiveTensors) {
  StatusOr<Client> connected = Client::Connect({.socket = arguments.at(0), .label = "exits"});
  if (!connected.ok()) return 1;
  static Client client = *connected;
  auto* leaked = new std::vector<Tensor>;
  static std::vector<Tensor>* const reachable = leaked;  // no leak to LeakSanitizer
  std::vector<Tensor> local;
  for (int i = 0; i < 10; ++i) {
    StatusOr<Tensor> tensor = client.Empty({1024});
    if (!tensor.ok()) return 2;
    if (i < 4) StaticTensors().push_back(*tensor);
    if (i >= 4 && i < 7) reachable->push_back(*tensor);
    if (i >= 7) local.push_back(*tensor);
  }
  const StatusOr<Subscription> events = client.OnEvent([](const Event&) {});
  if (!events.ok()) return 3;
  channel.Send("ready");
  (void)channel.Receive();
  if (arguments.at(1) == "exit") exit(0);  // the locals live on
  return 0;
}

// Case P3 (a C++ process).
class ForkEnds : public Fork, public ::testing::WithParamInterface<const char*> {};

TEST_P(ForkEnds, AProcessThatEndsWithLiveTensorsEndsCleanlyAndHoldsNothing) {
  StartBroker();
  EventLog events(client());
  const std::string directory = MakeDirectory();
  auto child = ChildProcess::Spawn("ExitWithLiveTensors", {socket(), GetParam()}, directory + "/stderr");
  ASSERT_EQ(child.Receive(), "ready");
  EXPECT_EQ(Info().storages, 10u);
  const TimePoint start = Clock::Real().Now();
  child.Send("end");
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(events.WaitFor([](const Event& event) { return event.kind == EventKind::kFreed; }, kHang, 10));
  EXPECT_LE(Clock::Real().Now() - start, 1s * kSlack);
  EXPECT_EQ(Info().storages, 0u);
  std::ifstream stderr_file(directory + "/stderr");
  const std::string text{std::istreambuf_iterator<char>(stderr_file), std::istreambuf_iterator<char>()};
  EXPECT_EQ(text, "");
}
INSTANTIATE_TEST_SUITE_P(By, ForkEnds, ::testing::Values("return", "exit"),
                         [](const auto& way) { return std::string(way.param); });

// Case P7.
TEST_F(Fork, WhatAForkedChildCanReadIsNotReusedUntilItEnds) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> t = a.Create("t", 64 * 1024, 1);
  TB_ASSERT_OK(t.status());
  Agent& c = Adopt(a.Fork());
  TB_ASSERT_OK(a.Drop("t"));
  TB_ASSERT_OK(a.Flush());
  Agent& b = StartAgent("B");
  for (int i = 0; i < 50; ++i) {
    TB_ASSERT_OK(a.Create(fmt::format("a{}", i), 64 * 1024, 100 + static_cast<uint64_t>(i)).status());
    TB_ASSERT_OK(b.Create(fmt::format("b{}", i), 64 * 1024, 200 + static_cast<uint64_t>(i)).status());
  }
  TB_EXPECT_OK(c.Check("t", 1));
  ASSERT_TRUE(Find(*t));
  EXPECT_EQ(Find(*t)->state, StorageState::kHeld);

  a.Kill();
  EXPECT_TRUE(Eventually(kHang, [&] {
    const std::optional<StorageRecord> record = Find(*t);
    return record && record->state == StorageState::kQuarantined;
  }));
  const std::optional<StorageRecord> record = Find(*t);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->holder_count, 0u);
  ASSERT_EQ(record->holders.size(), 1u);
  EXPECT_TRUE(record->holders[0].quarantined);
  EXPECT_GE(Info().quarantined_bytes, 64 * 1024);
  for (int i = 50; i < 100; ++i) TB_ASSERT_OK(b.Create(fmt::format("b{}", i), 64 * 1024, 300).status());
  TB_EXPECT_OK(c.Check("t", 1));

  c.Kill();
  const TimePoint start = Clock::Real().Now();
  EXPECT_TRUE(events.WaitForFreed(*t));
  EXPECT_LE(Clock::Real().Now() - start, 100ms * kSlack);
  EXPECT_TRUE(Eventually(1s * kSlack, [&] { return Info().quarantined_bytes == 0; }));
}

// Case P7: the parent lives, and its release waits for the child.
TEST_F(Fork, AReleaseThatAForkedChildPutOffComesWithin100MillisecondsOfItsEnd) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> before = a.Create("before", 4096, 1);
  TB_ASSERT_OK(before.status());
  Agent& c = Adopt(a.Fork());
  const StatusOr<StorageId> after = a.Create("after", 4096, 2);
  TB_ASSERT_OK(after.status());
  TB_ASSERT_OK(a.Drop("before"));
  TB_ASSERT_OK(a.Drop("after"));
  // What the child has never seen goes at once.
  EXPECT_TRUE(events.WaitForFreed(*after));
  EXPECT_EQ(Holders(*before), 1);
  TB_EXPECT_OK(c.Check("before", 1));
  c.Kill();
  const TimePoint start = Clock::Real().Now();
  EXPECT_TRUE(events.WaitForFreed(*before));
  EXPECT_LE(Clock::Real().Now() - start, 100ms * kSlack);
}

// Case P7: a program that was executed pins nothing.
TEST_F(Fork, AnExecutedChildPinsNothing) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> first = a.Create("t1", 4096, 1);
  const StatusOr<StorageId> second = a.Create("t2", 4096, 2);
  TB_ASSERT_OK(first.status());
  TB_ASSERT_OK(second.status());
  std::string pid;
  TB_ASSERT_OK(a.Do({"exec-child"}, &pid));
  TB_ASSERT_OK(a.Drop("t1"));
  EXPECT_TRUE(events.WaitForFreed(*first, 2s * kSlack));
  a.Kill();
  EXPECT_TRUE(events.WaitForFreed(*second, 2s * kSlack));
  EXPECT_EQ(Info().quarantined_bytes, 0);
  kill(static_cast<pid_t>(std::stol(pid)), SIGKILL);
}

// A child that claims what it inherited holds it itself.
TEST_F(Fork, AChildThatCallsHoldsWhatItInherited) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> t = a.Create("t", 4096, 1);
  TB_ASSERT_OK(t.status());
  Agent& c = Adopt(a.Fork());
  TB_ASSERT_OK(c.Create("mine", 4096, 2).status());
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(*t) == 2; })) << Holders(*t);
  a.Kill();
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(*t) == 1; })) << Holders(*t);
  TB_EXPECT_OK(c.Check("t", 1));
  TB_EXPECT_OK(c.Publish("t", "x"));
  TB_EXPECT_OK(client().Open("x").status());
  TB_ASSERT_OK(c.Do({"unpublish", "x"}));
  TB_ASSERT_OK(c.Drop("t"));
  TB_ASSERT_OK(c.Flush());
  // The dead parent's hold is quarantined for as long as a child of it lives.
  TB_ASSERT_OK(client().Flush());
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(*t) == 0; })) << Holders(*t);
  EXPECT_EQ(Find(*t)->state, StorageState::kQuarantined);
  c.Kill();
  EXPECT_TRUE(events.WaitForFreed(*t));
}

// Grandchildren are as children are.
TEST_F(Fork, AForkOfAForkReadsAndCalls) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  StartBroker();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> t = a.Create("t", 4096, 1);
  TB_ASSERT_OK(t.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = Adopt(a.Fork());
  Agent& c = Adopt(b.Fork());
  TB_EXPECT_OK(c.Check("t", 1));
  TB_EXPECT_OK(c.Open("again", "x"));
  TB_EXPECT_OK(b.Open("again", "x"));
  TB_EXPECT_OK(a.Open("again", "x"));
  EXPECT_EQ(Holders(*t), 3);
  b.Kill();
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(*t) == 2; })) << Holders(*t);
  TB_EXPECT_OK(c.Check("again", 1));
}

}  // namespace
}  // namespace tensorbroker::testing
