// Lists: complete, each Storage once, while others create and free.
#include <fmt/format.h>

#include <atomic>
#include <map>
#include <thread>

#include "tests/multiprocess/harness/fixture.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {
namespace {

class Lists : public MultiprocessTest {};

// Creates and frees until the test hangs up.
TB_CHILD(CreateAndFree) {
  const StatusOr<Client> connected = Client::Connect({.socket = arguments.at(0)});
  if (!connected.ok()) return 1;
  Client client = *connected;
  std::vector<Tensor> held;
  int64_t created = 0;
  channel.Send("at work");
  while (!channel.Receive(Duration{0})) {
    StatusOr<Tensor> tensor = client.Empty({64}, DType::kUInt8, {.map = false});
    if (!tensor.ok()) return 2;
    held.push_back(*std::move(tensor));
    if (++created % 64 == 0) held.clear();
  }
  channel.Send(std::to_string(created));
  return 0;
}

// Case C6.
TEST_F(Lists, EachStorageThatLivesThroughoutComesExactlyOnce) {
  StartBroker();
  const int count = LongOr(200'000, kSanitized ? 2'000 : 6'000);
  std::vector<Storage> storages;
  storages.reserve(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    StatusOr<Storage> storage = client().CreateStorage(64, {.map = false});
    TB_ASSERT_OK(storage.status());
    storages.push_back(*std::move(storage));
  }
  auto busy = ChildProcess::Spawn("CreateAndFree", {socket()});
  ASSERT_EQ(busy.Receive(), "at work");
  for (int round = 0; round < 3; ++round) {
    std::map<StorageId, int> seen;
    StorageId last;
    TB_ASSERT_OK(inspector().List({}, [&](const StorageRecord& record) {
      EXPECT_LT(last, record.id) << "not by id";
      last = record.id;
      ++seen[record.id];
    }));
    for (const Storage& storage : storages) ASSERT_EQ(seen[storage.id()], 1) << ToString(storage.id());
    for (const auto& [id, times] : seen) ASSERT_EQ(times, 1) << ToString(id);
  }
  busy.Send("stop");
  const std::optional<std::string> created = busy.Receive();
  ASSERT_TRUE(created);
  EXPECT_GT(std::stoll(*created), 0);
  EXPECT_EQ(busy.Wait(), 0);
}

TEST_F(Lists, APrefixChoosesByNameAndHoldersComeWhereAskedFor) {
  StartBroker();
  Agent& a = StartAgent("maker");
  for (int i = 0; i < 20; ++i) {
    TB_ASSERT_OK(a.Create("t", 4096, 1).status());
    TB_ASSERT_OK(a.Publish("t", fmt::format("{}/{}", i % 2 == 0 ? "even" : "odd", i)));
  }
  TB_ASSERT_OK(a.Create("unnamed", 4096, 1).status());
  int listed = 0;
  TB_ASSERT_OK(inspector().List({.prefix = "even/", .holders = true}, [&](const StorageRecord& record) {
    ++listed;
    ASSERT_EQ(record.names.size(), 1u);
    EXPECT_EQ(record.names[0].name.rfind("even/", 0), 0u);
    EXPECT_EQ(record.creator_pid, a.pid());
  }));
  EXPECT_EQ(listed, 10);
  int unnamed = 0;
  TB_ASSERT_OK(inspector().List({.holders = true}, [&](const StorageRecord& record) {
    if (!record.names.empty()) return;
    ++unnamed;
    ASSERT_EQ(record.holders.size(), 1u);
    EXPECT_EQ(record.holders[0].pid, a.pid());
    EXPECT_EQ(record.holders[0].label, "maker");
    EXPECT_EQ(record.state, StorageState::kHeld);
  }));
  EXPECT_EQ(unnamed, 1);
}

TEST_F(Lists, SessionsSayWhoHoldsHowMuch) {
  StartBroker();
  Agent& a = StartAgent("hoarder");
  TB_ASSERT_OK(a.CreateMany("t", 10, 8192, false));
  const StatusOr<std::vector<SessionRecord>> sessions = inspector().Sessions(true);
  TB_ASSERT_OK(sessions.status());
  ASSERT_EQ(sessions->size(), 2u);
  for (const SessionRecord& session : *sessions) {
    if (session.pid != a.pid()) continue;
    EXPECT_EQ(session.label, "hoarder");
    EXPECT_EQ(session.storages, 10u);
    EXPECT_EQ(session.bytes, 81'920);
    EXPECT_EQ(session.held.size(), 10u);
    EXPECT_EQ(session.uid, geteuid());
    EXPECT_NE(session.command.find("multiprocess_test"), std::string::npos) << session.command;
    return;
  }
  FAIL() << "no session of pid " << a.pid();
}

}  // namespace
}  // namespace tensorbroker::testing
