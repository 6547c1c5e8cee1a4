// Processes whose pids mean nothing to each other: a pid is never an identity.
#include <fmt/format.h>
#include <signal.h>

#include "tests/multiprocess/harness/fixture.h"

namespace tensorbroker::testing {
namespace {

class PidNamespaces : public MultiprocessTest {};

// Case P6.
TEST_F(PidNamespaces, OfTwoClientsThatAreBothPidSevenOnlyTheDeadOnesHoldsGo) {
  TB_REQUIRE_ROOT();
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent({.launch = {.pid_namespace = true}, .socket = socket(), .label = "A"});
  Agent& b = StartAgent({.launch = {.pid_namespace = true}, .socket = socket(), .label = "B"});
  for (Agent* agent : {&a, &b}) {
    std::string pid;
    TB_ASSERT_OK(agent->Do({"getpid"}, &pid));
    ASSERT_EQ(pid, "7");
  }
  const StatusOr<StorageId> only_a = a.Create("own", 4096, 1);
  const StatusOr<StorageId> only_b = b.Create("own", 4096, 2);
  const StatusOr<StorageId> both = a.Create("both", 4096, 3);
  TB_ASSERT_OK(only_a.status());
  TB_ASSERT_OK(only_b.status());
  TB_ASSERT_OK(both.status());
  TB_ASSERT_OK(b.Attach("both", *both));
  ASSERT_EQ(Holders(*both), 2);

  // The broker stands outside and sees other pids than 7.
  pid_t outer = 0;
  const StatusOr<std::vector<SessionRecord>> sessions = inspector().Sessions(false);
  TB_ASSERT_OK(sessions.status());
  for (const SessionRecord& session : *sessions) {
    if (session.label == "A") outer = session.pid;
  }
  ASSERT_GT(outer, 7);
  a.ExpectDeath();
  ASSERT_EQ(kill(outer, SIGKILL), 0);
  EXPECT_TRUE(events.WaitForFreed(*only_a));
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(*both) == 1; }));
  EXPECT_EQ(Holders(*only_b), 1);
  TB_EXPECT_OK(b.Check("own", 2));
  TB_EXPECT_OK(b.Check("both", 3));
  TB_EXPECT_OK(b.Create("more", 4096, 4).status());
}

// A broker in a pid namespace of its own sees pid 0 for clients outside: they are known by pidfd alone.
TEST_F(PidNamespaces, ABrokerThatCannotSeeItsClientsPidsStillKnowsTheirEnds) {
  TB_REQUIRE_ROOT();
  const std::string shm = MakeDirectory("/dev/shm");
  UseSocket(MakeDirectory() + "/broker.sock");
  Process daemon = Process::StartDaemon({"--socket", socket(), "--shm-dir", shm}, {.pid_namespace = true});
  ASSERT_FALSE(daemon.Ended()) << daemon.Stderr();
  const pid_t outer = client().inspector().Info().ok() ? 0 : -1;
  ASSERT_EQ(outer, 0);
  {
    EventLog events(client());
    Agent& a = StartAgent("A");
    Agent& b = StartAgent("B");
    const StatusOr<StorageId> only_a = a.Create("t", 4096, 1);
    const StatusOr<StorageId> only_b = b.Create("t", 4096, 2);
    TB_ASSERT_OK(only_a.status());
    TB_ASSERT_OK(only_b.status());
    a.Kill();
    EXPECT_TRUE(events.WaitForFreed(*only_a));
    EXPECT_EQ(Holders(*only_b), 1);
    TB_EXPECT_OK(b.Check("t", 2));
  }
  StopAgents();
  TB_EXPECT_OK(inspector().Stop().status());
  DropClient();
  const Exit exit = daemon.Wait();
  EXPECT_TRUE(exit.in_time);
  EXPECT_EQ(exit.code, 0) << daemon.Stderr();
}

}  // namespace
}  // namespace tensorbroker::testing
