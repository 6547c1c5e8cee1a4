// Ends: the broker's, and this process's.
#include <gmock/gmock.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/client/session.h"
#include "tests/client/connect.h"

namespace tensorbroker::testing {
namespace {

using ::testing::HasSubstr;

TEST(BrokerGone, MappedTensorsStayReadableAndCallsAreUnavailable) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Full({64}, 8));
  const pid_t pid = broker->pid();
  std::thread waiter([&] {
    EXPECT_EQ(client.Open("never", {.timeout = kForever}).status().code(), StatusCode::kUnavailable);
  });
  EXPECT_TRUE(Eventually(5s, [&] { return Storages(client) == 1; }));
  broker->Kill();
  waiter.join();
  EXPECT_EQ(tensor.data<float>()[63], 8.0f);
  tensor.data<float>()[0] = 9;
  const auto start = std::chrono::steady_clock::now();
  const Status status = client.Empty({4}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr(std::to_string(pid)));
  EXPECT_EQ(tensor.Publish("x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(client.Flush().code(), StatusCode::kUnavailable);
  EXPECT_EQ(client.inspector().Info().status().code(), StatusCode::kUnavailable);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
}

TEST(BrokerGone, ANewConnectFindsTheNextBroker) {
  const auto broker = StartBroker();
  const Client before = ConnectTo(*broker);
  const Tensor old = Must(before.Full({4}, 1));
  broker->Kill();
  EXPECT_FALSE(before.inspector().Info().ok());
  Must(broker->Restart());
  const Client after = ConnectTo(*broker);
  EXPECT_NE(after.session_id(), before.session_id());
  EXPECT_TRUE(after.Ones({4}).ok());
  EXPECT_EQ(old.data<float>()[0], 1.0f);
}

TEST(BrokerGone, ASubscriptionSaysThatItsEventsEnded) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Subscription subscription = Must(client.OnEvent([](const Event&) {}));
  EXPECT_TRUE(subscription.status().ok()) << subscription.status();
  broker->Kill();
  EXPECT_TRUE(Eventually(5s, [&] { return subscription.status().code() == StatusCode::kUnavailable; }));
}

// Case P4.
TEST(BrokerGone, AStoppedBrokerIsADeadlineThatNamesIt) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker, 300ms);
  const Tensor tensor = Must(client.Ones({4}));
  Must(tensor.Publish("there"));
  broker->Pause();
  const Status status = client.Open("there").status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("Open \"there\""));
  EXPECT_THAT(std::string(Message(status)), HasSubstr(std::to_string(broker->pid())));
  EXPECT_EQ(client.Empty({4}).status().code(), StatusCode::kDeadlineExceeded);
  broker->Resume();
  // Whatever the broker did with the calls that were given up, nothing of it stays.
  EXPECT_TRUE(ComesTo(client, 1));
  EXPECT_EQ(Must(client.inspector().Stat("there")).holder_count, 1u);
  EXPECT_TRUE(client.Open("there").ok());
}

// Case P4. The releases that rode with a call that nobody answered reach the broker while the session lives.
TEST(BrokerGone, ReleasesThatRodeWithALostCallAreNotLost) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker, 300ms);
  const Tensor kept = Must(client.Ones({4}));
  for (int i = 0; i < 5; ++i) {
    std::vector<Tensor> dropped;
    for (int n = 0; n < 3; ++n) dropped.push_back(Must(client.Ones({4})));
    EXPECT_TRUE(ComesTo(client, 4));
    broker->Pause();
    dropped.clear();  // and at once the call that takes the releases along
    EXPECT_EQ(client.Empty({4}).status().code(), StatusCode::kDeadlineExceeded);
    broker->Resume();
    EXPECT_TRUE(ComesTo(client, 1));
    EXPECT_EQ(Must(client.inspector().Stat(kept.storage().id())).holder_count, 1u);
  }
}

// Case P4. The broker may make the transfer hold before it learns that the call was given up, or after.
TEST(BrokerGone, AnExportThatNobodyAnsweredLeavesNoTransferHold) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Ones({4}));
  const auto& held = ::tensorbroker::internal::HeldStorage::Of(tensor.storage());
  std::atomic<int64_t> answered{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 400; ++i) {
        const auto token = held->session()->Export(*held, TimePoint{});  // the call begins, and is given up
        if (token.ok()) {
          ++answered;
        } else {
          EXPECT_EQ(token.status().code(), StatusCode::kDeadlineExceeded) << token.status();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Must(client.Flush());
  for (const Limit& limit : Must(client.inspector().Info()).limits) {
    if (limit.name == "transfer holds a session") {
      EXPECT_EQ(limit.used, answered);
    }
  }
}

TB_CHILD(ExitsWithLiveTensors) {
  static Tensor global;
  static std::vector<Tensor> tensors;
  // Never destroyed: the threads below use it to the end.
  static Client& client = *new Client(Must(Client::Connect({.socket = arguments[0]})));
  global = Must(client.Ones({16}));
  for (int i = 0; i < 10; ++i) tensors.push_back(Must(client.Ones({16})));
  static Subscription subscription = Must(client.OnEvent([](const Event&) {}));
  for (int t = 0; t < 3; ++t) {
    std::thread([] {
      while (client.Ones({8}).ok()) {
      }
    }).detach();
  }
  std::thread([] { static_cast<void>(client.Open("never", {.timeout = kForever})); }).detach();
  channel.Send("ready");
  channel.Receive();
  return 0;
}

// Case P3.
TEST(ProcessExit, WithLiveTensorsAndThreadsIsSilentAndClean) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  for (int i = 0; i < 10; ++i) {
    const std::string log = broker->socket() + ".stderr";
    ChildProcess child = ChildProcess::Spawn("ExitsWithLiveTensors", {broker->socket()}, log);
    ASSERT_EQ(child.Receive(), "ready");
    child.Send("exit");
    ASSERT_EQ(child.Wait(), 0);
    EXPECT_TRUE(ComesTo(client, 0, 1s));
    std::ifstream in(log);
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "");
  }
}

TB_CHILD(ExitsWithACallUnderWay) {
  static std::thread waiter;
  static std::atomic<StatusCode> code{StatusCode::kOk};
  // Registered before the library's own handler, so run after it.
  atexit([] {
    waiter.join();
    _exit(code == StatusCode::kUnavailable ? 0 : 1);
  });
  // Never destroyed: the call under way is the waiter's.
  static Client& client = *new Client(Must(Client::Connect({.socket = arguments[0]})));
  std::atomic<bool> begun{false};
  waiter = std::thread([&begun] {
    begun = true;
    code = client.Open("never", {.timeout = kForever}).status().code();
  });
  while (!begun) std::this_thread::yield();
  channel.Send("ready");
  channel.Receive();
  return 0;
}

// Case P3: a call that waits inside gRPC ends before gRPC's own end.
TEST(ProcessExit, CallsUnderWayEndAsUnavailable) {
  const auto broker = StartBroker();
  ChildProcess child = ChildProcess::Spawn("ExitsWithACallUnderWay", {broker->socket()});
  ASSERT_EQ(child.Receive(), "ready");
  const Client client = ConnectTo(*broker);
  EXPECT_TRUE(Eventually(5s, [&] {
    for (const Limit& limit : Must(client.inspector().Info()).limits) {
      if (limit.name == "pending waits") return limit.used == 1;
    }
    return false;
  }));
  child.Send("exit");
  EXPECT_EQ(child.Wait(), 0);
}

}  // namespace
}  // namespace tensorbroker::testing
