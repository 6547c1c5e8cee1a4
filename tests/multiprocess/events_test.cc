// Watching: each event once, in order; a watcher that is too slow is told how much it missed.
#include <fmt/format.h>

#include "tests/multiprocess/harness/fixture.h"

namespace tensorbroker::testing {
namespace {

class Events : public MultiprocessTest {};

TEST_F(Events, TheLifeOfAStorageIsToldInOrderWithWhoDidIt) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("maker");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("reader");
  TB_ASSERT_OK(b.Open("t", "x"));
  TB_ASSERT_OK(b.Drop("t"));
  ASSERT_TRUE(
      events.WaitFor([&](const Event& e) { return e.kind == EventKind::kReleased && e.pid == b.pid(); }));
  TB_ASSERT_OK(client().Rename("x", "y"));
  TB_ASSERT_OK(client().Unpublish("y"));
  TB_ASSERT_OK(a.Drop("t"));
  ASSERT_TRUE(events.WaitForFreed(*id));
  a.Finish();
  ASSERT_TRUE(
      events.WaitFor([&](const Event& e) { return e.kind == EventKind::kSessionEnded && e.pid == a.pid(); }));

  std::vector<std::string> said;
  for (const Event& event : events.All()) {
    if (event.kind == EventKind::kSessionOpened || event.kind == EventKind::kSessionEnded) continue;
    // A create may be told as an attach of its own creator, too.
    if (event.kind == EventKind::kAttached && event.pid == a.pid()) continue;
    EXPECT_EQ(event.storage, *id) << Name(event.kind);
    EXPECT_GT(event.unix_ns, 0);
    said.push_back(fmt::format("{} {} {} {}", Name(event.kind), event.name, event.new_name, event.label));
  }
  const std::vector<std::string> expected = {
      "created   maker",      "published x  maker",      "attached   reader", "released x  reader",
      "renamed x y the test", "unpublished y  the test", "released   maker"};
  ASSERT_EQ(said.size(), expected.size() + 1) << ::testing::PrintToString(said);
  for (size_t i = 0; i < expected.size(); ++i) {
    // "attached" may name the name by which it was opened.
    if (i == 2) {
      EXPECT_EQ(said[i].rfind("attached", 0), 0u) << said[i];
    } else {
      EXPECT_EQ(said[i], expected[i]);
    }
  }
  EXPECT_EQ(said.back().rfind("freed", 0), 0u) << said.back();
}

TEST_F(Events, AWatchOfAPrefixSeesThoseNamesOnly) {
  StartBroker();
  EventLog train(client(), "train/");
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", 4096, 1).status());
  TB_ASSERT_OK(a.Publish("t", "test/0"));
  TB_ASSERT_OK(a.Publish("t", "trainer"));
  TB_ASSERT_OK(a.Publish("t", "train/0"));
  TB_ASSERT_OK(a.Do({"unpublish", "train/0"}));
  ASSERT_TRUE(train.WaitFor([](const Event& event) { return event.kind == EventKind::kUnpublished; }));
  for (const Event& event : train.All()) EXPECT_EQ(event.name, "train/0") << Name(event.kind);
  EXPECT_EQ(train.All().size(), 2u);
}

TEST_F(Events, AWatcherThatIsTooSlowIsToldHowManyEventsItMissed) {
  StartBroker();
  // Both see the same events; the slow one's first callback returns when all is over.
  EventLog fast(client(), "x");
  Agent& slow = StartAgent({.launch = {}, .socket = socket(), .label = "slow"});
  const StatusOr<Tensor> tensor = client().Empty({1});
  TB_ASSERT_OK(tensor.status());
  // 4,096 events may wait in the broker, more in the connection's buffers: on until it lags.
  int64_t lost = 0;
  for (int round = 0; lost == 0 && round < 10; ++round) {
    const int before = fast.Count([](const Event&) { return true; });
    TB_ASSERT_OK(slow.Do({"watch-and-block", "x"}));
    for (int i = 0; i < 12'000 * (1 + round); ++i) TB_ASSERT_OK(tensor->Publish("x"));
    TB_ASSERT_OK(slow.Do({"unblock"}));
    // After the gap events come again. (While the broker's queue is full, new ones are missed, too.)
    std::string last;
    int tries = 0;
    ASSERT_TRUE(Eventually(kHang, [&] {
      last = fmt::format("x/last/{}/{}", round, tries++);
      TB_EXPECT_OK(tensor->Publish(last));
      return slow.Do({"await-event", last, "200"}).ok();
    }));
    ASSERT_TRUE(fast.WaitFor([&](const Event& event) { return event.name == last; }));
    std::string said;
    TB_ASSERT_OK(slow.Do({"count-events"}, &said));
    lost = std::stoll(said.substr(said.find(' ') + 1));
    // Seen and missed are all there were.
    EXPECT_EQ(std::stoll(said) + lost, fast.Count([](const Event&) { return true; }) - before) << said;
  }
  EXPECT_GT(lost, 0) << "it never lagged";
  EXPECT_EQ(fast.Count([](const Event& event) { return event.kind == EventKind::kLagged; }), 0);
}

// The watch is on when OnEvent returns.
TEST_F(Events, NothingAfterTheSubscriptionIsMissed) {
  StartBroker();
  const StatusOr<Tensor> tensor = client().Empty({1});
  TB_ASSERT_OK(tensor.status());
  for (int i = 0; i < 20; ++i) {
    const std::string name = fmt::format("x/{}", i);
    EventLog events(client(), name);
    TB_ASSERT_OK(tensor->Publish(name));
    EXPECT_TRUE(events.WaitFor([&](const Event& event) { return event.name == name; }, 5s * kSlack));
  }
}

}  // namespace
}  // namespace tensorbroker::testing
