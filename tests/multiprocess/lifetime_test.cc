// What keeps bytes alive, and what ends them: processes that exit, are killed, delete, fork and execute.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <random>

#include "tests/multiprocess/harness/fixture.h"
#include "tests/support/child_process.h"
#include "tests/support/fork_under_tsan.h"

namespace tensorbroker::testing {
namespace {

class Lifetime : public MultiprocessTest {};

EventLog::Matches SessionEnded(pid_t pid) {
  return [pid](const Event& event) { return event.kind == EventKind::kSessionEnded && event.pid == pid; };
}

// Case L1.
TEST_F(Lifetime, AReaderThatExitsOrIsKilledTakesNothingFromOthers) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x"));

  Agent& exits = StartAgent("B1");
  TB_ASSERT_OK(exits.Open("t", "x"));
  TB_ASSERT_OK(exits.Check("t", 1));
  exits.Finish();
  Agent& killed = StartAgent("B2");
  TB_ASSERT_OK(killed.Attach("t", *id));
  TB_ASSERT_OK(killed.Check("t", 1));
  killed.Kill();
  ASSERT_TRUE(events.WaitFor(SessionEnded(exits.pid())));
  ASSERT_TRUE(events.WaitFor(SessionEnded(killed.pid())));

  Agent& c = StartAgent("C");
  TB_ASSERT_OK(c.Open("t", "x"));
  TB_EXPECT_OK(c.Check("t", 1));
  TB_EXPECT_OK(a.Check("t", 1));
  EXPECT_EQ(Holders(*id), 2);
  for (const Agent* agent : {&a, &exits, &killed, &c}) EXPECT_EQ(agent->Stderr(), "");
  EXPECT_EQ(broker().log().find("leak"), std::string::npos) << broker().log();
}

// Case L3 (removal by the next start).
TEST_F(Lifetime, ANextBrokerRemovesWhatItsOwnInstanceLeftAndNothingElse) {
  StartBroker({"--memory", "shm"});
  const std::string foreign = broker().shm_dir() + "/somebody-elses";
  std::ofstream(foreign) << "not ours";
  Agent& a = StartAgent("A");
  for (int i = 0; i < 3; ++i) {
    TB_ASSERT_OK(a.Create(fmt::format("t{}", i), 64 * kMiB, static_cast<uint64_t>(i)).status());
  }
  // Another live broker in the same directory.
  const std::string other_socket = MakeDirectory() + "/broker.sock";
  Process other = Process::StartDaemon({"--socket", other_socket, "--shm-dir", broker().shm_dir(),
                                        "--instance", "other-" + std::to_string(getpid())});
  ASSERT_FALSE(other.Ended()) << other.Stderr();
  Agent& b = StartAgent({.socket = other_socket, .label = "B"});
  TB_ASSERT_OK(b.Create("t", kMiB, 9).status());
  TB_ASSERT_OK(b.Publish("t", "kept"));
  ASSERT_GE(broker().SegmentBytes(), 193 * kMiB);

  broker().Kill();
  a.Kill();
  TB_ASSERT_OK(broker().Restart());

  EXPECT_LT(broker().SegmentBytes(), 2 * kMiB);
  EXPECT_TRUE(std::ifstream(foreign).good());
  Agent& c = StartAgent({.socket = other_socket, .label = "C"});
  TB_ASSERT_OK(c.Open("t", "kept"));
  TB_EXPECT_OK(c.Check("t", 9));
  // One line of the log says how many files, and how many bytes.
  const std::string log = broker().log();
  EXPECT_NE(log.find("=3 "), std::string::npos) << log;
  EXPECT_NE(log.find(std::to_string(3 * 64 * kMiB)), std::string::npos) << log;
  unlink(foreign.c_str());
  b.Finish();
  c.Finish();
  other.Stop();
}

// Case L4 (but for sealed Storages).
TEST_F(Lifetime, SigkillGivesBackHoldsAndBytesWithin100Milliseconds) {
  StartBroker();
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  Agent& b = StartAgent("B");
  const StatusOr<StorageId> half = b.Create("half", kMiB, 7);  // no name yet: B has not finished it
  TB_ASSERT_OK(half.status());
  const int64_t with_b = UsedBytes();

  Agent& a = StartAgent("A");
  const StatusOr<StorageId> first = a.Create("t1", 48 * kMiB, 1);
  const StatusOr<StorageId> second = a.Create("t2", 16 * kMiB, 2);
  TB_ASSERT_OK(first.status());
  TB_ASSERT_OK(second.status());
  TB_ASSERT_OK(a.Do({"views", "t1", "1"}));  // the third tensor, over the first one's Storage
  EXPECT_EQ(UsedBytes(), with_b + 64 * kMiB);

  a.Kill();
  const TimePoint dead = Clock::Real().Now();
  EXPECT_TRUE(events.WaitForFreed(*first));
  EXPECT_TRUE(events.WaitForFreed(*second));
  EXPECT_TRUE(BooksAt(with_b));
  EXPECT_LE(Clock::Real().Now() - dead, 100ms * kSlack);
  EXPECT_EQ(Holders(*first), -1);
  EXPECT_EQ(Holders(*second), -1);
  EXPECT_EQ(Holders(*half), 1);
  TB_EXPECT_OK(b.Check("half", 7));
  TB_EXPECT_OK(b.Publish("half", "done"));
  TB_ASSERT_OK(b.Drop("half"));
  TB_ASSERT_OK(client().Unpublish("done"));
  EXPECT_TRUE(BooksAt(u0));
  EXPECT_EQ(broker().SegmentBytes(), 0);
}

TB_CHILD(CreateAndPublishForEver) {
  const StatusOr<Client> connected = Client::Connect({.socket = arguments.at(0)});
  if (!connected.ok()) return 1;
  Client client = *connected;
  channel.Send("at work");
  for (;;) {
    StatusOr<Tensor> tensor = client.Empty({512, 1024}, DType::kUInt8);
    if (tensor.ok()) (void)tensor->Publish("x");
  }
}

// Case L6.
TEST_F(Lifetime, ACreatorKilledAtAnyInstantLeavesTheNameFree) {
  StartBroker();
  const int64_t u0 = UsedBytes();
  std::mt19937 random(20240607);
  for (int i = 0; i < LongOr(50, kSanitized ? 15 : 50); ++i) {
    EventLog events(client());
    auto creator = ChildProcess::Spawn("CreateAndPublishForEver", {socket()});
    ASSERT_EQ(creator.Receive(), "at work");
    // So many rounds into its loop, after one half of a round or the other; where in it the kill meets it, the scheduler
    // decides.
    const EventKind half = random() % 2 == 0 ? EventKind::kCreated : EventKind::kPublished;
    const int rounds = 1 + static_cast<int>(random() % 50);
    const auto its = [&](const Event& event) { return event.kind == half && event.pid == creator.pid(); };
    ASSERT_TRUE(events.WaitFor(its, kHang, rounds));
    creator.Kill();
    StatusOr<Tensor> mine = client().Full({16}, i, DType::kFloat32);
    TB_ASSERT_OK(mine.status());
    TB_ASSERT_OK(mine->Publish("x"));
    StatusOr<Tensor> seen = client().Open("x");
    TB_ASSERT_OK(seen.status());
    EXPECT_EQ(seen->storage().id(), mine->storage().id());
    TB_ASSERT_OK(client().Unpublish("x"));
  }
  TB_ASSERT_OK(client().Flush());
  EXPECT_TRUE(BooksAt(u0));
}

// Case L7.
TEST_F(Lifetime, ANameOutlivesItsPublisher) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", 100'000, 3).status());
  TB_ASSERT_OK(a.Publish("t", "train/x"));
  a.Finish();
  ASSERT_TRUE(events.WaitFor(SessionEnded(a.pid())));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("t", "train/x"));
  TB_EXPECT_OK(b.Check("t", 3));
  const StatusOr<StorageRecord> record = inspector().Stat("train/x");
  TB_ASSERT_OK(record.status());
  ASSERT_EQ(record->names.size(), 1u);
  EXPECT_FALSE(record->names[0].publisher_alive);
  EXPECT_EQ(record->names[0].publisher_pid, a.pid());
  EXPECT_EQ(record->state, StorageState::kNamed);
}

// A name of LIFETIME_SESSION is the other kind.
TEST_F(Lifetime, ASessionsNameGoesWithItsPublisher) {
  StartBroker();
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 100'000, 3);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x", "session"));
  TB_EXPECT_OK(client().Open("x").status());
  a.Kill();
  EXPECT_TRUE(events.WaitForFreed(*id));
  TB_EXPECT_ERROR(client().Open("x"), kNotFound, "x");
  EXPECT_TRUE(BooksAt(u0));
}

// Case L8.
TEST_F(Lifetime, DeleteLetsHoldersReadOnAndFreesAtTheLastRelease) {
  StartBroker();
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> held = a.Create("t", 4 * kMiB, 1);
  TB_ASSERT_OK(held.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  int64_t holders = -1;
  TB_ASSERT_OK(b.Delete(*held, &holders));
  EXPECT_EQ(holders, 1);
  TB_EXPECT_ERROR(b.Attach("t", *held), kNotFound);
  TB_EXPECT_ERROR(b.Open("t", "x"), kNotFound);
  TB_EXPECT_OK(a.Check("t", 1));
  const std::optional<StorageRecord> record = Find(*held);
  ASSERT_TRUE(record);
  EXPECT_EQ(record->state, StorageState::kDeleted);
  EXPECT_EQ(UsedBytes(), u0 + 4 * kMiB);
  TB_ASSERT_OK(a.Drop("t"));
  EXPECT_TRUE(events.WaitForFreed(*held));
  EXPECT_TRUE(BooksAt(u0));
  EXPECT_EQ(broker().SegmentBytes(), 0);
}

// Case L8.
TEST_F(Lifetime, DeleteWithoutHoldersFreesAtOnce) {
  StartBroker();
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4 * kMiB, 1);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  TB_ASSERT_OK(a.Drop("t"));
  TB_ASSERT_OK(a.Flush());
  ASSERT_EQ(Holders(*id), 0);
  const StatusOr<int64_t> holders = client().Delete(*id);
  TB_ASSERT_OK(holders.status());
  EXPECT_EQ(*holders, 0);
  EXPECT_EQ(Holders(*id), -1);
  EXPECT_TRUE(BooksAt(u0));
  EXPECT_EQ(broker().SegmentBytes(), 0);
}

// Case L8.
TEST_F(Lifetime, AnOldIdNeverNamesANewStorage) {
  StartBroker();
  StatusOr<Storage> storage = client().CreateStorage(4096, {.map = false});
  TB_ASSERT_OK(storage.status());
  const StorageId old = storage->id();
  storage = Storage();
  const int cycles = LongOr(10'000, kSanitized ? 500 : 10'000);
  for (int i = 0; i < cycles; ++i) {
    const StatusOr<Storage> next = client().CreateStorage(4096, {.map = false});
    TB_ASSERT_OK(next.status());
    ASSERT_NE(next->id(), old);
  }
  TB_EXPECT_ERROR(client().Attach(old), kNotFound, ToString(old));
  TB_EXPECT_ERROR(client().Delete(old), kNotFound, ToString(old));
  TB_EXPECT_ERROR(inspector().Stat(old), kNotFound, ToString(old));
}

// Case L9.
TEST_F(Lifetime, AChildThatExitsTakesNoHoldOfItsParent) {
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> first = a.Create("t1", 4096, 1);
  const StatusOr<StorageId> second = a.Create("t2", 4096, 2);
  TB_ASSERT_OK(first.status());
  TB_ASSERT_OK(second.status());
  Agent& child = Adopt(a.Fork());
  TB_EXPECT_OK(child.Check("t1", 1));
  child.Finish();  // returns from main: all its destructors run
  std::string code;
  TB_ASSERT_OK(a.Do({"reap", std::to_string(child.pid())}, &code));
  EXPECT_EQ(code, "0");
  TB_ASSERT_OK(a.Flush());
  EXPECT_EQ(Holders(*first), 1);
  EXPECT_EQ(Holders(*second), 1);
  TB_EXPECT_OK(a.Check("t1", 1));
  TB_EXPECT_OK(a.Check("t2", 2));
  EXPECT_EQ(events.Count([](const Event& event) { return event.kind == EventKind::kReleased; }), 0);
}

// Case L9: a child that called the broker itself has a session of its own, and ends it alone.
TEST_F(Lifetime, AChildsOwnSessionEndsAlone) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  StartBroker();
  EventLog events(client());
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& child = Adopt(a.Fork());
  TB_ASSERT_OK(child.Open("again", "x"));
  EXPECT_EQ(Holders(*id), 2);
  TB_ASSERT_OK(child.Drop("t"));
  TB_ASSERT_OK(child.Drop("again"));
  TB_ASSERT_OK(child.Flush());
  EXPECT_EQ(Holders(*id), 1);
  child.Finish();
  ASSERT_TRUE(events.WaitFor(SessionEnded(child.pid())));
  EXPECT_EQ(Holders(*id), 1);
  TB_EXPECT_OK(a.Check("t", 1));
}

// Case L9: exec. The child of a client gets none of its descriptors, and none of the broker's could pass.
class LifetimeIn : public Lifetime, public ::testing::WithParamInterface<const char*> {};

TEST_P(LifetimeIn, NoDescriptorOfAStorageIsInheritedOverExec) {
  StartBroker({"--memory", GetParam()});
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t1", 4096, 1).status());
  TB_ASSERT_OK(a.Create("t2", 4 * kMiB, 2).status());
  std::string pid;
  TB_ASSERT_OK(a.Do({"exec-child"}, &pid));
  const auto child = static_cast<pid_t>(std::stol(pid));
  // It is what it executes once its name changed.
  ASSERT_TRUE(Eventually(kHang, [&] {
    std::string name;
    std::getline(std::ifstream("/proc/" + pid + "/comm"), name);
    return name == "sleep";
  }));
  // What this test was started with is everybody's.
  std::vector<std::string> known = DescriptorsOf(getpid());
  const auto inherited = [&](const std::string& line) {
    return std::stoi(line) <= 2 || std::find(known.begin(), known.end(), line) != known.end();
  };
  // The loader opens and closes the libraries of what it executes.
  EXPECT_TRUE(Eventually(kHang, [&] {
    const std::vector<std::string> now = DescriptorsOf(child);
    return std::all_of(now.begin(), now.end(), inherited);
  })) << ::testing::PrintToString(DescriptorsOf(child));
  kill(child, SIGKILL);
  TB_ASSERT_OK(a.Do({"reap", pid}));

  int segments = 0;
  for (const std::string& line : DescriptorsOf(broker().pid())) {
    const std::string number = line.substr(0, line.find(' '));
    if (inherited(line)) continue;
    segments +=
        line.find(broker().shm_dir()) != std::string::npos || line.find("memfd:") != std::string::npos;
    std::ifstream info(fmt::format("/proc/{}/fdinfo/{}", broker().pid(), number));
    for (std::string field; std::getline(info, field);) {
      if (field.rfind("flags:", 0) != 0) continue;
      EXPECT_NE(std::stoul(field.substr(6), nullptr, 8) & O_CLOEXEC, 0u)
          << "the broker's descriptor " << line;
    }
  }
  EXPECT_GE(segments, 1) << "the test looks at no Segment";
}
INSTANTIATE_TEST_SUITE_P(Memory, LifetimeIn, ::testing::Values("shm", "memfd"),
                         [](const auto& memory) { return std::string(memory.param); });

}  // namespace
}  // namespace tensorbroker::testing
