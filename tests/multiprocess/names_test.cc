// Names: who may bind and replace them, and who waits for them.
#include <fmt/format.h>
#include <signal.h>

#include "tests/multiprocess/harness/fixture.h"

namespace tensorbroker::testing {
namespace {

class Names : public MultiprocessTest {};

// Case T2.
TEST_F(Names, ANameWhosePublisherLivesIsReplacedOnlyByThoseWhoSaySo) {
  StartBroker();
  Agent& a = StartAgent("trainer");
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Create("t", 4096, 2).status());
  TB_EXPECT_ERROR(b.Publish("t", "x"), kAlreadyExists, "x", std::to_string(a.pid()));
  TB_ASSERT_OK(b.Open("seen", "x"));
  TB_EXPECT_OK(b.Check("seen", 1));
  TB_ASSERT_OK(b.Publish("t", "x", "replace"));
  TB_ASSERT_OK(a.Open("seen", "x"));
  TB_EXPECT_OK(a.Check("seen", 2));
  TB_EXPECT_OK(a.Check("t", 1));
  // It is B's name now.
  TB_EXPECT_ERROR(a.Publish("t", "x"), kAlreadyExists, std::to_string(b.pid()));
  EXPECT_EQ(inspector().Stat("x")->names[0].version, 2u);
}

// Case T2.
TEST_F(Names, ADeadPublishersNameMayBeReplaced) {
  StartBroker();
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Create("t", 4096, 2).status());
  a.Kill();
  TB_EXPECT_OK(b.Publish("t", "x"));
  TB_ASSERT_OK(b.Open("seen", "x"));
  TB_EXPECT_OK(b.Check("seen", 2));
}

// Case T2.
TEST_F(Names, AScriptThatPublishesItsNamesRunsTwice) {
  StartBroker();
  for (uint64_t run = 1; run <= 2; ++run) {
    Agent& script = StartAgent("script");
    for (int i = 0; i < 10; ++i) {
      TB_ASSERT_OK(script.Create("t", 4096, run).status());
      TB_ASSERT_OK(script.Publish("t", fmt::format("batch/{}", i)));
      TB_ASSERT_OK(script.Publish("t", fmt::format("batch/{}", i)));  // its own name, again
    }
    script.Finish();
  }
  Agent& b = StartAgent("B");
  for (int i = 0; i < 10; ++i) {
    TB_ASSERT_OK(b.Open("t", fmt::format("batch/{}", i)));
    TB_EXPECT_OK(b.Check("t", 2));
  }
  EXPECT_EQ(Info().storages, 10u);
}

// Case T3: a waiting open sees the tensor as it was at the publish, never before it was filled.
TEST_F(Names, AWaitingOpenNeverSeesAnUnfilledTensor) {
  StartBroker();
  Agent& b = StartAgent("B");
  b.Begin({"open", "t", "late", std::to_string(Duration(60s).count()), "ro"});
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Reserve("t", 4 * kMiB).status());
  TB_ASSERT_OK(a.Do({"map", "t"}));
  TB_ASSERT_OK(a.Write("t", 1));
  TB_EXPECT_ERROR(StartAgent("C").Open("t", "late"), kNotFound, "late");
  const TimePoint start = Clock::Real().Now();
  TB_ASSERT_OK(a.Publish("t", "late"));
  TB_ASSERT_OK(b.End());
  EXPECT_LE(Clock::Real().Now() - start, 500ms * kSlack);
  TB_EXPECT_OK(b.Check("t", 1));
}

TEST_F(Names, AnOpenWaitsAsLongAsItWasToldAndSaysForWhat) {
  StartBroker();
  Agent& b = StartAgent("B");
  TB_EXPECT_ERROR(b.Open("t", "never"), kNotFound, "never");
  const TimePoint start = Clock::Real().Now();
  TB_EXPECT_ERROR(b.Open("t", "never", 300ms), kDeadlineExceeded, "never");
  EXPECT_GE(Clock::Real().Now() - start, 300ms);
  EXPECT_LE(Clock::Real().Now() - start, 300ms + 700ms * kSlack);
  // A waiter that dies leaves no wait behind.
  b.Begin({"open", "t", "never", std::to_string(Duration(600s).count()), "ro"});
  b.Kill();
  TB_EXPECT_ERROR(client().Open("never", {.timeout = 50ms}), kDeadlineExceeded);
}

// Case L11, for names: readers of the old version read it to the end.
TEST_F(Names, ReadersOfAReplacedVersionReadItToTheEnd) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> first = a.Create("v1", kMiB, 1);
  TB_ASSERT_OK(first.status());
  TB_ASSERT_OK(a.Publish("v1", "x"));
  TB_ASSERT_OK(a.Drop("v1"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("old", "x"));
  TB_ASSERT_OK(a.Create("v2", kMiB, 2).status());
  TB_ASSERT_OK(a.Publish("v2", "x"));
  TB_ASSERT_OK(b.Open("new", "x"));
  TB_EXPECT_OK(b.Check("old", 1));
  TB_EXPECT_OK(b.Check("new", 2));
  TB_ASSERT_OK(b.Drop("old"));
  EXPECT_TRUE(events.WaitForFreed(*first));
  TB_EXPECT_OK(b.Check("new", 2));
}

TEST_F(Names, ARenameMovesTheNameAtOneInstant) {
  StartBroker();
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x/part"));
  Agent& b = StartAgent("B");
  b.Begin({"open", "t", "x/whole", std::to_string(Duration(60s).count()), "ro"});
  TB_ASSERT_OK(client().Rename("x/part", "x/whole"));
  TB_ASSERT_OK(b.End());
  TB_EXPECT_OK(b.Check("t", 1));
  TB_EXPECT_ERROR(client().Open("x/part"), kNotFound, "x/part");
  TB_EXPECT_ERROR(client().Rename("x/part", "y"), kNotFound, "x/part");
}

}  // namespace
}  // namespace tensorbroker::testing
