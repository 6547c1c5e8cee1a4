// Many threads at one Broker, without gRPC: for the thread sanitizer, and for the books.
#include <thread>

#include "tests/server/fixture.h"

namespace tensorbroker {
namespace {

// As FakeHost, from many threads; keeps nothing.
class QuietHost : public BrokerHost {
 public:
  void SessionOpened(uint64_t, std::shared_ptr<const PeerIdentity>) override {}
  void SessionEnded(uint64_t) override {}
  void SegmentRetired(uint64_t, SegmentId) override {}
  void FlushAll() override {}
  void Reserve(std::function<void()> task) override { task(); }
  void Reclaim(std::function<void()> task) override { task(); }
  void WakeAt(TimePoint) override {}
};

TEST(Threads, ThatShareABrokerLeaveNothingBehind) {  // Cases F4, F6.
  constexpr int kThreads = 8;
  constexpr int kRounds = 200;
  constexpr uint64_t kEpoch = 5;
  QuietHost host;
  HeapSource source;
  Budget budget(int64_t{1} << 30);
  Broker* told = nullptr;
  SegmentPerStorage allocator(kEpoch, &source, &budget, nullptr,
                              [&told](SegmentId id) { told->SegmentRetired(id); });
  BrokerOptions options;
  options.epoch = kEpoch;
  options.admission = {1000, std::nullopt};
  options.same_process = [](const PeerIdentity& a, const PeerIdentity& b) { return a.pid == b.pid; };
  Broker broker(std::move(options), &allocator, &budget, &host);
  told = &broker;
  std::vector<std::vector<std::shared_ptr<std::atomic<int>>>> all_answers(kThreads);
  const auto live = [&](int number) {
    for (int round = 0; round < kRounds; ++round) {
      auto identity = std::make_shared<PeerIdentity>();
      identity->uid = 1000;
      identity->pid = number + 1;
      Connection connection(identity);
      const auto session = broker.OpenSession(connection, 1, "t", "same label");
      ASSERT_TRUE(session.ok()) << session.status();
      const std::string token(session->token.bytes());
      const auto bound = broker.BindLease(session->lease_token.bytes(), *identity);
      ASSERT_TRUE(bound.ok());
      const uint64_t watch = broker.NewCall();
      ASSERT_TRUE(
          broker.Watch(connection, token, "", watch, [&broker, watch] { (void)broker.TakeEvents(watch, 10); })
              .ok());
      const uint64_t wait = broker.NewCall();
      const auto answers = std::make_shared<std::atomic<int>>(0);  // whoever answers may be late
      broker.AwaitOpen(connection, {token, 1, "n" + std::to_string((number + 1) % kThreads)}, kForever, wait,
                       [answers](StatusOr<Opened>) { ++*answers; });
      CreateCall create;
      create.token = token;
      create.call_id = 2;
      create.size_bytes = 100;
      Grant grant;
      broker.Create(connection, create, std::make_shared<std::atomic<bool>>(false),
                    [&grant](StatusOr<Created> created) {
                      if (created.ok()) grant = created->grant;
                    });
      ASSERT_TRUE(grant.storage);
      PublishCall publish;
      publish.token = token;
      publish.name = "n" + std::to_string(number);
      publish.storage = grant.storage;
      publish.replace = true;
      publish.persistent = round % 2 == 0;
      EXPECT_TRUE(broker.Publish(connection, publish).ok());
      (void)broker.FetchSegment(*bound, grant.segment, GrantAccess::kReadWrite);
      (void)broker.Open(connection, {token, 3, "n" + std::to_string((number + 3) % kThreads)});
      uint64_t cursor = 0;
      bool end = false;
      EXPECT_TRUE(broker.ListPage(connection, {token, "", true}, &cursor, &end).ok());
      broker.RunTimers();
      if (round % 3 == 0) broker.ProcessEnded(*bound);
      broker.LeaseClosed(*bound);
      all_answers[static_cast<size_t>(number)].push_back(answers);
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) threads.emplace_back(live, i);
  for (std::thread& thread : threads) thread.join();
  for (const auto& answers_of_one : all_answers) {
    for (const auto& answers : answers_of_one) {
      EXPECT_EQ(answers->load(), 1) << "answered once, by a grant or by the session's end";
    }
  }
  EXPECT_EQ(broker.sessions(), 0u);
  EXPECT_LE(broker.storages(), size_t{kThreads}) << "only those that a persistent name keeps";
  broker.BeginStop();
  broker.Clear();
  EXPECT_EQ(budget.used_bytes(), 0);
}

}  // namespace
}  // namespace tensorbroker
