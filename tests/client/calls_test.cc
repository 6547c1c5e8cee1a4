// Creating, opening, naming, holding and dropping, against a real broker.
#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/client/connect.h"

namespace tensorbroker::testing {
namespace {

// A program's file may have any name.
TEST(Calls, TheDefaultLabelIsTheProgramsNameMadeSafe) {
  const auto broker = StartBroker();
  std::string name = "tr\xc3\xa4in\n\x1b[2J\xff\xc3" + std::string(70, 'x');
  char* const before = program_invocation_short_name;
  program_invocation_short_name = name.data();
  const StatusOr<Client> client = Client::Connect({.socket = broker->socket()});
  program_invocation_short_name = before;
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_EQ(Must(client->inspector().Sessions(false)).at(0).label,
            "tr\xc3\xa4in??[2J??" + std::string(64 - 13, 'x'));
}

using ::testing::HasSubstr;

TEST(Calls, ATensorIsFilledPublishedAndOpenedWithoutACopy) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor batch = Must(client.Empty({32, 8, 8}));
  ASSERT_NE(batch.data<float>(), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(batch.data_ptr()) % 64, 0u);
  EXPECT_EQ(batch.data<double>(), nullptr);
  for (int i = 0; i < 2048; ++i) batch.data<float>()[i] = static_cast<float>(i);
  Must(batch.Publish("train/batch/0"));

  ChildProcess reader = ChildProcess::Spawn("ReaderOfTheBatch", {broker->socket()});
  EXPECT_EQ(reader.Receive(), "2047 read-only");
  EXPECT_EQ(reader.Wait(), 0);
  EXPECT_EQ(batch.data<float>()[0], 0.0f);
}

TB_CHILD(ReaderOfTheBatch) {
  const Client client = Must(Client::Connect({.socket = arguments[0]}));
  const Tensor same = Must(client.Open("train/batch/0", {.timeout = 5s}));
  const Tensor pixel = Must(Must(Must(same.Select(0, 31)).Narrow(1, 7, 1)).Transpose(0, 1));
  EXPECT_EQ(same.mutable_data_ptr(), nullptr);
  channel.Send(std::to_string(static_cast<int>(pixel.data<const float>()[7 * 8])) +
               (same.writable() ? " writable" : " read-only"));
  return 0;
}

TEST(Calls, ConnectingTwiceSharesOneSession) {
  const auto broker = StartBroker();
  const Client a = ConnectTo(*broker);
  const Client b = ConnectTo(*broker);
  EXPECT_EQ(a.session_id(), b.session_id());
  EXPECT_EQ(Must(a.inspector().Sessions(false)).size(), 1u);
}

TEST(Calls, TheSessionIsClosedWithTheLastTensor) {
  const auto broker = StartBroker();
  SessionId first;
  {
    Tensor tensor;
    {
      const Client client = ConnectTo(*broker);
      first = client.session_id();
      tensor = Must(client.Ones({4}));
    }
    EXPECT_EQ(tensor.data<float>()[3], 1.0f);  // outlives the Client
    Must(tensor.Publish("outlives"));
    EXPECT_EQ(ConnectTo(*broker).session_id(), first);
  }
  const Client other = ConnectTo(*broker);
  EXPECT_NE(other.session_id(), first);
  EXPECT_TRUE(Eventually(5s, [&] { return Must(other.inspector().Sessions(false)).size() == 1; }));
}

TEST(Calls, ReleasesReachTheBrokerWithinMoments) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  {
    const Tensor tensor = Must(client.Empty({1024}));
    const Tensor view = Must(tensor.Narrow(0, 0, 1));
    EXPECT_EQ(Storages(client), 1u);
    EXPECT_EQ(tensor.storage().use_count(), 2);
  }
  EXPECT_TRUE(ComesTo(client, 0));
}

TEST(Calls, FlushReturnsWhenTheBrokerHasTheReleases) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  for (int i = 0; i < 50; ++i) {
    { const Tensor tensor = Must(client.Empty({16})); }
    Must(client.Flush());
    EXPECT_EQ(Storages(client), 0u);
  }
}

TEST(Calls, AnOpenThatCrossesAReleaseKeepsItsHold) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  { Must(Must(client.Full({64}, 7)).Publish("crossing")); }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Tensor tensor = Must(client.Open("crossing"));
        ASSERT_EQ(tensor.data<const float>()[63], 7.0f);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const Tensor last = Must(client.Open("crossing"));
  Must(client.Unpublish("crossing"));
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 1u);
  EXPECT_EQ(last.data<const float>()[0], 7.0f);
}

// A read-only Open is read-only even where this process may write.
TEST(Calls, AccessIsTheHandlesNotTheProcesss) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor writable = Must(client.Zeros({16}));
  Must(writable.Publish("x"));
  const Tensor readable = Must(client.Open("x"));
  EXPECT_TRUE(writable.writable());
  EXPECT_FALSE(readable.writable());
  EXPECT_NE(writable.data_ptr(), readable.data_ptr());
  writable.data<float>()[3] = 5;
  EXPECT_EQ(readable.data<const float>()[3], 5.0f);
  EXPECT_EQ(readable.Fill(1).code(), StatusCode::kFailedPrecondition);
  const Tensor again = Must(client.Open("x", {.writable = true}));
  EXPECT_EQ(again.data_ptr(), writable.data_ptr());
  EXPECT_EQ(again.storage().use_count(), 3);
  EXPECT_EQ(Must(client.inspector().Stat("x")).holder_count, 1u);
}

TEST(Calls, WhatIsNotMappedCostsNoAddressSpaceUntilMap) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const int before = CountMappings(broker->shm_dir());
  const Tensor tensor = Must(client.Empty({1024}, DType::kFloat32, {.map = false}));
  EXPECT_EQ(tensor.data_ptr(), nullptr);
  EXPECT_EQ(CountMappings(broker->shm_dir()), before);
  Must(tensor.Map());
  EXPECT_NE(tensor.data_ptr(), nullptr);
  EXPECT_EQ(CountMappings(broker->shm_dir()), before + 1);
}

// Case C5.
TEST(Calls, ZeroElementsRoundTripWithoutAMapping) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  int i = 0;
  for (const Dims& shape : {Dims{0, 100}, Dims{1, 0}, Dims{0}}) {
    const std::string name = "empty/" + std::to_string(i++);
    const Tensor tensor = Must(client.Empty(shape));
    Must(tensor.Publish(name));
    const Tensor same = Must(client.Open(name));
    EXPECT_EQ(same.shape(), shape);
    EXPECT_EQ(same.data_ptr(), nullptr);
    EXPECT_TRUE(same.storage().mapped());
  }
  EXPECT_EQ(CountMappings(broker->shm_dir()), 0);
  const Tensor scalar = Must(client.Full({}, 3));
  EXPECT_EQ(scalar.numel(), 1);
  EXPECT_EQ(scalar.data<float>()[0], 3.0f);
}

TEST(Calls, OpenWaitsForTheNameOrItsDeadline) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  EXPECT_EQ(client.Open("later").status().code(), StatusCode::kNotFound);
  const Status late = client.Open("later", {.timeout = 50ms}).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late;
  EXPECT_THAT(std::string(Message(late)), HasSubstr("later"));
  std::thread opener([&] { EXPECT_EQ(Must(client.Open("later", {.timeout = kForever})).numel(), 5); });
  Must(Must(client.Empty({5})).Publish("later"));
  opener.join();
}

// Case T2.
TEST(Calls, AnotherSessionsNameIsTakenOnlyByReplace) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  ChildProcess owner = ChildProcess::Spawn("PublisherOfTaken", {broker->socket()});
  ASSERT_EQ(owner.Receive(), "published");
  const Tensor mine = Must(client.Ones({2}));
  const Status taken = mine.Publish("taken");
  EXPECT_EQ(taken.code(), StatusCode::kAlreadyExists) << taken;
  EXPECT_THAT(std::string(Message(taken)), HasSubstr(std::to_string(owner.pid())));
  owner.Kill();
  EXPECT_TRUE(Eventually(5s, [&] { return mine.Publish("taken").ok(); }));
  Must(mine.Publish("taken"));  // one's own
}

TB_CHILD(PublisherOfTaken) {
  const Client client = Must(Client::Connect({.socket = arguments[0]}));
  const Tensor tensor = Must(client.Zeros({2}));
  Must(tensor.Publish("taken"));
  channel.Send("published");
  channel.Receive();
  return 0;
}

TEST(Calls, BadNamesAreRefusedByEveryCallWithTheirRule) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Ones({4}));
  Must(tensor.Publish("good"));
  const Inspector inspector = client.inspector();
  const std::string bad = "\xff\xfe";
  for (const Status& refused :
       {tensor.Publish(bad), client.Open(bad).status(), client.Unpublish(bad), client.Rename(bad, "good"),
        client.Rename("good", bad), inspector.Stat(bad).status(),
        inspector.List({.prefix = bad}, [](const StorageRecord&) {}),
        inspector.Watch(bad, 1s, nullptr, [](const Event&) { return false; })}) {
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("is not UTF-8")) << refused;
  }
  EXPECT_EQ(Must(client.Open("good")).storage().id(), tensor.storage().id());
}

TEST(Calls, UntypedStoragesAndWeakHandles) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  WeakStorage weak;
  StorageId id;
  {
    const Storage storage = Must(client.CreateStorage(64));
    weak = storage.weak();
    id = storage.id();
    EXPECT_EQ(storage.mutable_bytes().size(), 64u);
    const Tensor floats = Must(Tensor::Over(storage, *Header::Contiguous({16}, DType::kFloat32)));
    const Tensor bytes = Must(Tensor::Over(storage, *Header::Contiguous({64}, DType::kUInt8)));
    floats.data<float>()[0] = 1.0f;
    EXPECT_EQ(bytes.data<uint8_t>()[3], 0x3F);
    EXPECT_EQ(Tensor::Over(storage, *Header::Contiguous({65}, DType::kUInt8)).status().code(),
              StatusCode::kOutOfRange);
    EXPECT_EQ(weak.Lock().id(), id);
    EXPECT_EQ(Must(client.Attach(id)).use_count(), 4);
  }
  EXPECT_FALSE(weak.Lock());
  Must(client.Flush());
  EXPECT_EQ(client.Attach(id).status().code(), StatusCode::kNotFound);
}

TEST(Calls, CreationFillsAsAsked) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor range = Must(client.Arange(1, 4, 0.5, DType::kFloat64));
  EXPECT_EQ(range.shape(), Dims{6});
  EXPECT_EQ(range.data<double>()[5], 3.5);
  EXPECT_EQ(Must(client.Full({3}, 2, DType::kInt16)).data<int16_t>()[2], 2);
  EXPECT_EQ(client.Full({3}, 300, DType::kUInt8).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Must(client.ZerosLike(range)).data<double>()[5], 0.0);
  EXPECT_EQ(client.Empty({-1}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client.CreateStorage(-1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(client.Empty({4}, DType::kFloat32, {.device = {DeviceType::kCuda, 0}}).status().code(),
            StatusCode::kUnimplemented);
  EXPECT_TRUE(Must(client.Empty({4}, DType::kFloat32, {.requires_grad = true})).header().requires_grad());
}

TEST(Calls, OperatorsSeeWhatIsThere) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  std::vector<Tensor> tensors;
  for (int i = 0; i < 10; ++i) {
    tensors.push_back(Must(client.Empty({16})));
    Must(tensors.back().Publish("list/" + std::to_string(i)));
  }
  int seen = 0;
  Must(client.inspector().List({.prefix = "list/", .holders = true}, [&](const StorageRecord& record) {
    ++seen;
    EXPECT_EQ(record.size_bytes, 64);
    ASSERT_EQ(record.holders.size(), 1u);
    EXPECT_EQ(record.holders[0].pid, getpid());
  }));
  EXPECT_EQ(seen, 10);
  EXPECT_EQ(Must(client.inspector().Stat(tensors[3].storage().id())).names.at(0).name, "list/3");
  EXPECT_EQ(Must(client.inspector().Sessions(true)).at(0).label, "the test");
  Must(client.Rename("list/3", "renamed"));
  EXPECT_EQ(client.inspector().Stat("list/3").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Must(client.Delete(tensors[3].storage().id())), 1);
  EXPECT_EQ(client.Open("renamed").status().code(), StatusCode::kNotFound);
}

TEST(Calls, EventsComeUntilTheSubscriptionEnds) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  std::atomic<int> published{0};
  {
    const Subscription subscription = Must(client.OnEvent(
        [&](const Event& event) {
          if (event.kind == EventKind::kPublished && event.name == "seen/a") ++published;
        },
        "seen/"));
    const Tensor tensor = Must(client.Empty({1}));
    Must(tensor.Publish("seen/a"));
    EXPECT_TRUE(Eventually(5s, [&] { return published == 1; }));
  }
  Must(Must(client.Empty({1})).Publish("seen/b"));
  int events = 0;
  Must(client.inspector().Watch(
      "", 20ms, [] {}, [&](const Event&) { return ++events < 5; }));
}

TEST(Calls, WireBytesCountMessagesNotTensors) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const int64_t before = client.wire_bytes();
  EXPECT_GT(before, 0);
  const Tensor tensor = Must(client.Ones({1 << 20}));
  const int64_t cost = client.wire_bytes() - before;
  EXPECT_GT(cost, 0);
  EXPECT_LT(cost, 1000);
}

TEST(Calls, ManyThreadsShareTheSession) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = "t/" + std::to_string(t);
        const Tensor tensor = Must(client.Full({64}, t));
        Must(tensor.Publish(name));
        const Tensor same = Must(client.Open(name));
        ASSERT_EQ(same.data<const float>()[63], static_cast<float>(t));
        Must(client.Unpublish(name));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 0u);
}

}  // namespace
}  // namespace tensorbroker::testing
