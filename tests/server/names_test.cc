// Names, waits and events.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "tensorbroker/ipc/process.h"
#include "tests/server/fixture.h"

namespace tensorbroker {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Names : public BrokerTest {
 protected:
  StatusOr<uint64_t> PublishFor(Peer& peer, std::string name, StorageId storage, bool persistent,
                                Duration ttl) {
    PublishCall call = PublishOf(peer, std::move(name), storage);
    call.persistent = persistent;
    call.ttl_ns = ttl.count();
    return broker_.Publish(*peer.connection, call);
  }
};

TEST_F(Names, OneKeepsItsStorageAfterThePublishersEnd) {  // Case L7.
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  broker_.LeaseClosed(a.id.serial);
  Peer b = Open(2);
  const auto opened = OpenName(b, "n");
  ASSERT_TRUE(opened.ok());
  EXPECT_EQ(opened->grant.storage, storage);
  EXPECT_EQ(opened->grant.access, GrantAccess::kReadOnly);
  EXPECT_EQ(*opened->header, *Header::Contiguous({4}, DType::kUInt8));
}

TEST_F(Names, ALivePublishersIsRefusedToOthersWithItsPidAndAge) {  // Case T2.
  Peer a = Open(11);
  Peer b = Open(12);
  ASSERT_TRUE(Publish(a, "n", Made(a)).ok());
  clock_.Advance(seconds(90));
  const StorageId mine = Made(b);
  const auto refused = Publish(b, "n", mine);
  EXPECT_EQ(CodeOf(refused), StatusCode::kAlreadyExists);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("pid 11"));
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("90 s"));
  EXPECT_EQ(*Publish(b, "n", mine, true), 2u);
}

TEST_F(Names, ADeadPublishersMayBeReplaced) {  // Case T2.
  Peer first = Open(1);
  ASSERT_EQ(*Publish(first, "n", Made(first)), 1u);
  broker_.LeaseClosed(first.id.serial);
  Peer second = Open(2);
  EXPECT_EQ(*Publish(second, "n", Made(second)), 2u);
  EXPECT_EQ(*Publish(second, "n", Made(second)), 3u);
}

TEST_F(Names, AQuarantinedPublisherIsDead) {  // Case T2.
  Peer first = Open(1);
  ASSERT_TRUE(Publish(first, "n", Made(first)).ok());
  broker_.ProcessEnded(first.id.serial);
  Peer second = Open(2);
  EXPECT_TRUE(Publish(second, "n", Made(second)).ok());
}

TEST_F(Names, ReadersOfAnOldVersionKeepItsBytes) {  // Case L11.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId one = Made(a);
  const StorageId two = Made(a);
  ASSERT_TRUE(Publish(a, "n", one).ok());
  ASSERT_TRUE(OpenName(b, "n").ok());
  ASSERT_TRUE(Publish(a, "n", two).ok());
  Release(a, one);
  EXPECT_EQ(Holders(b, one), 1);
  EXPECT_EQ(OpenName(b, "n")->grant.storage, two);
  Release(b, one);
  EXPECT_EQ(Holders(b, one), -1);
}

TEST_F(Names, TheLastNameAndHoldFreeTheBytes) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  ASSERT_TRUE(Publish(a, "m", storage).ok());
  Release(a, storage);
  EXPECT_EQ(Stat(a, storage)->state, StorageState::kNamed);
  ASSERT_TRUE(broker_.Unpublish(*a.connection, a.token, "n").ok());
  EXPECT_GT(budget_.used_bytes(), 0);
  ASSERT_TRUE(broker_.Unpublish(*a.connection, a.token, "m").ok());
  EXPECT_EQ(budget_.used_bytes(), 0);
  EXPECT_EQ(CodeOf(broker_.Unpublish(*a.connection, a.token, "m")), StatusCode::kNotFound);
}

TEST_F(Names, OneOfTheSessionsLifeGoesWithIt) {
  Peer a = Open(1);
  Peer b = Open(2);
  ASSERT_TRUE(PublishFor(a, "mine", Made(a), false, {}).ok());
  ASSERT_TRUE(PublishFor(a, "stays", Made(a), true, {}).ok());
  broker_.ProcessEnded(a.id.serial);
  EXPECT_EQ(CodeOf(OpenName(b, "mine")), StatusCode::kNotFound);
  EXPECT_TRUE(OpenName(b, "stays").ok());
}

TEST_F(Names, ATimeLimitUnpublishes) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(PublishFor(a, "n", storage, true, seconds(2)).ok());
  EXPECT_EQ(host_.wakes.back(), clock_.Now() + seconds(2));
  EXPECT_EQ(Stat(a, storage)->names[0].expires_unix_ns, clock_.UnixNanos() + 2'000'000'000);
  clock_.Advance(seconds(1));
  broker_.RunTimers();
  EXPECT_TRUE(OpenName(a, "n").ok());
  clock_.Advance(seconds(1));
  broker_.RunTimers();
  EXPECT_EQ(CodeOf(OpenName(a, "n")), StatusCode::kNotFound);
}

TEST_F(Names, AnotherPublishEndsAnEarlierTimeLimit) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(PublishFor(a, "n", storage, true, seconds(2)).ok());
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  clock_.Advance(seconds(9));
  broker_.RunTimers();
  EXPECT_TRUE(OpenName(a, "n").ok());
}

TEST_F(Names, RenameKeepsTheStorageAndFreesWhatItReplaced) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const StorageId replaced = Made(a);
  ASSERT_TRUE(Publish(a, "from", storage).ok());
  ASSERT_TRUE(Publish(a, "to", replaced).ok());
  Release(a, storage);
  Release(a, replaced);
  ASSERT_TRUE(broker_.Rename(*a.connection, a.token, "from", "to", false).ok());
  EXPECT_EQ(CodeOf(OpenName(a, "from")), StatusCode::kNotFound);
  const auto opened = OpenName(a, "to");
  EXPECT_EQ(opened->grant.storage, storage);
  EXPECT_EQ(opened->version, 2u);
  EXPECT_EQ(Holders(a, replaced), -1);
  EXPECT_TRUE(broker_.Rename(*a.connection, a.token, "to", "to", false).ok());
  EXPECT_EQ(CodeOf(broker_.Rename(*a.connection, a.token, "from", "x", false)), StatusCode::kNotFound);
}

TEST_F(Names, RenameDoesNotPushALivePublisherAside) {
  Peer a = Open(1);
  Peer b = Open(2);
  ASSERT_TRUE(Publish(a, "theirs", Made(a)).ok());
  ASSERT_TRUE(Publish(b, "mine", Made(b)).ok());
  EXPECT_EQ(CodeOf(broker_.Rename(*b.connection, b.token, "mine", "theirs", false)),
            StatusCode::kAlreadyExists);
  EXPECT_TRUE(broker_.Rename(*b.connection, b.token, "mine", "theirs", true).ok());
}

TEST_F(Names, ARenamedNameOfTheSessionsLifeStillGoesWithIt) {
  Peer a = Open(1);
  ASSERT_TRUE(PublishFor(a, "n", Made(a), false, {}).ok());
  ASSERT_TRUE(broker_.Rename(*a.connection, a.token, "n", "m", false).ok());
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(broker_.storages(), 0u);
}

TEST_F(Names, HostileOnesAreInvalid) {  // Case S1.
  Peer a = Open(1);
  const StorageId storage = Made(a);
  for (const std::string& name :
       {std::string("../x"), std::string("/x"), std::string("///x"), std::string("a\0b", 3),
        std::string(300, 'a'), std::string("a\nb"), std::string()}) {
    EXPECT_EQ(CodeOf(Publish(a, name, storage)), StatusCode::kInvalidArgument) << name;
    EXPECT_EQ(CodeOf(OpenName(a, name)), StatusCode::kInvalidArgument);
    EXPECT_EQ(CodeOf(broker_.Rename(*a.connection, a.token, "n", name, false)), StatusCode::kInvalidArgument);
    EXPECT_EQ(CodeOf(broker_.StatName(*a.connection, a.token, name)), StatusCode::kInvalidArgument);
  }
}

TEST_F(Names, OnlyAHolderPublishesAndOnlyWhatFits) {
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a, 4);
  EXPECT_EQ(CodeOf(Publish(b, "n", storage)), StatusCode::kNotFound);
  PublishCall call = PublishOf(a, "n", storage);
  call.header = *Header::Contiguous({5}, DType::kUInt8);
  EXPECT_EQ(CodeOf(broker_.Publish(*a.connection, call)), StatusCode::kOutOfRange);
  call = PublishOf(a, "n", storage);
  call.ttl_ns = -1;
  EXPECT_EQ(CodeOf(broker_.Publish(*a.connection, call)), StatusCode::kInvalidArgument);
}

TEST_F(Names, APublisherThatHasJustDiedIsNotTakenForAlive) {  // Case T2.
  const pid_t child = fork();
  if (child == 0) {
    pause();
    _exit(0);
  }
  auto identity = std::make_shared<PeerIdentity>();
  identity->uid = kUid;
  identity->pid = child;
  identity->pidfd = *PidfdOpen(child);
  const int pidfd = identity->pidfd.get();
  Peer a = Open(std::make_unique<Connection>(std::move(identity)));
  Peer b = Open(2);
  ASSERT_TRUE(Publish(a, "x", Made(a)).ok());
  EXPECT_EQ(CodeOf(Publish(b, "x", Made(b))), StatusCode::kAlreadyExists);
  kill(child, SIGKILL);
  EXPECT_TRUE(PidfdWait(pidfd, seconds(10)));
  EXPECT_TRUE(Publish(b, "x", Made(b)).ok());  // nobody has told the broker yet
  EXPECT_EQ(waitpid(child, nullptr, 0), child);
}

TEST_F(Names, AListByPrefixHasEachStorageOnce) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  Made(a);
  ASSERT_TRUE(Publish(a, "train/1", storage).ok());
  ASSERT_TRUE(Publish(a, "train/2", storage).ok());
  uint64_t cursor = 0;
  bool end = false;
  const auto page = broker_.ListPage(*a.connection, {a.token, "train/", true}, &cursor, &end);
  ASSERT_EQ(page->size(), 1u);
  EXPECT_EQ((*page)[0].names.size(), 2u);
  EXPECT_EQ((*page)[0].holders.size(), 1u);
}

TEST_F(Names, AStorageOfManyNamesIsAPageOfItsOwn) {
  Peer a = Open(1);
  for (int storage = 0; storage < 3; ++storage) {
    const StorageId id = Made(a);
    for (int i = 0; i < 1000; ++i) ASSERT_TRUE(Publish(a, fmt::format("{}/{}", storage, i), id).ok());
  }
  uint64_t cursor = 0;
  bool end = false;
  for (int storage = 0; storage < 3; ++storage) {
    const auto page = broker_.ListPage(*a.connection, {a.token, "", false}, &cursor, &end);
    ASSERT_EQ(page->size(), 1u);
    EXPECT_EQ((*page)[0].names.size(), 1000u);
  }
  EXPECT_TRUE(broker_.ListPage(*a.connection, {a.token, "", false}, &cursor, &end)->empty());
  EXPECT_TRUE(end);
}

class FewNames : public BrokerTest {
 protected:
  static Limits Few() {
    Limits limits;
    limits.names_per_uid = 3;
    limits.names_per_storage = 2;
    limits.pending_waits = 1;
    limits.watchers = 1;
    limits.events_per_watcher = 3;
    return limits;
  }
  FewNames() : BrokerTest(Few()) {}
};

TEST_F(FewNames, OneOverALimitIsRefused) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const StorageId other = Made(a);
  ASSERT_TRUE(Publish(a, "1", storage).ok());
  ASSERT_TRUE(Publish(a, "2", storage).ok());
  EXPECT_EQ(CodeOf(Publish(a, "3", storage)), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Publish(a, "2", storage).ok()) << "published again, it is no name more";
  ASSERT_TRUE(Publish(a, "3", other).ok());
  EXPECT_EQ(CodeOf(Publish(a, "4", other)), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Publish(a, "3", other).ok());
}

TEST_F(FewNames, OneWaitOverTheLimitIsRefused) {
  Peer a = Open(1);
  broker_.AwaitOpen(*a.connection, {a.token, 0, "n"}, kForever, 1, [](StatusOr<Opened>) {});
  StatusCode code = StatusCode::kOk;
  broker_.AwaitOpen(*a.connection, {a.token, 0, "n"}, kForever, 2,
                    [&](StatusOr<Opened> r) { code = CodeOf(r); });
  EXPECT_EQ(code, StatusCode::kResourceExhausted);
}

TEST_F(FewNames, ASlowWatcherIsToldHowManyEventsItMissed) {
  Peer a = Open(1);
  int wakes = 0;
  ASSERT_TRUE(broker_.Watch(*a.connection, a.token, "", 1, [&] { ++wakes; }).ok());
  EXPECT_EQ(CodeOf(broker_.Watch(*a.connection, a.token, "", 2, [] {})), StatusCode::kResourceExhausted);
  for (int i = 0; i < 5; ++i) Made(a);
  EXPECT_EQ(wakes, 1);
  const auto events = broker_.TakeEvents(1, 100);
  ASSERT_EQ(events->size(), 4u);
  EXPECT_EQ((*events)[0].kind, EventKind::kCreated);
  EXPECT_EQ((*events)[3].kind, EventKind::kLagged);
  EXPECT_EQ((*events)[3].lost, 2u);
  EXPECT_GE((*events)[3].unix_ns, (*events)[2].unix_ns);
  EXPECT_THAT(*broker_.TakeEvents(1, 100), IsEmpty());
  Made(a);
  EXPECT_EQ(wakes, 2);
  EXPECT_EQ(broker_.TakeEvents(1, 100)->size(), 1u);
  broker_.StopWatch(1);  // the broker outlives `wakes`, and wakes each watcher at its end
}

class WaitsFor : public Names {
 protected:
  struct Result {
    int calls = 0;
    StatusOr<Opened> opened = InternalError("not called");
  };
  uint64_t Await(Peer& peer, const std::string& name, Duration timeout, Result* result) {
    const uint64_t wait = broker_.NewCall();
    broker_.AwaitOpen(*peer.connection, {peer.token, ++peer.calls, name}, timeout, wait,
                      [result](StatusOr<Opened> opened) {
                        ++result->calls;
                        result->opened = std::move(opened);
                      });
    return wait;
  }
};

TEST_F(WaitsFor, ANameThatIsThereIsOpenedAtOnce) {
  Peer a = Open(1);
  ASSERT_TRUE(Publish(a, "n", Made(a)).ok());
  Result result;
  Await(a, "n", seconds(1), &result);
  EXPECT_TRUE(result.opened.ok());
}

TEST_F(WaitsFor, AllWhoWaitGetItWhenItIsPublished) {  // Case T3.
  Peer a = Open(1);
  Peer b = Open(2);
  Result one, two, other;
  Await(b, "n", kForever, &one);
  Await(b, "n", seconds(5), &two);
  Await(b, "m", seconds(5), &other);
  const StorageId storage = Made(a);
  EXPECT_EQ(one.calls, 0);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  EXPECT_EQ(one.opened->grant.storage, storage);
  EXPECT_EQ(two.opened->grant.storage, storage);
  EXPECT_EQ(other.calls, 0);
  Release(b, storage, 1);
  EXPECT_EQ(Holders(a, storage), 2);
  ASSERT_TRUE(broker_.Rename(*a.connection, a.token, "n", "m", false).ok());
  EXPECT_TRUE(other.opened.ok());
}

TEST_F(WaitsFor, OneThatIsDueIsToldWhatItWaitedFor) {
  Peer a = Open(1);
  Result result;
  Await(a, "n", seconds(5), &result);
  EXPECT_EQ(host_.wakes.back(), clock_.Now() + seconds(5));
  clock_.Advance(seconds(5));
  broker_.RunTimers();
  EXPECT_EQ(CodeOf(result.opened), StatusCode::kDeadlineExceeded);
  EXPECT_THAT(TextOf(result.opened.status()), HasSubstr("within 5.0 s"));
  EXPECT_EQ(result.calls, 1);
}

TEST_F(WaitsFor, ACallerWhoLeftGetsNoGrant) {
  Peer a = Open(1);
  Peer b = Open(2);
  Result result;
  const uint64_t wait = Await(b, "n", kForever, &result);
  broker_.CancelWait(wait);
  broker_.CancelWait(wait);
  EXPECT_EQ(CodeOf(result.opened), StatusCode::kCancelled);
  EXPECT_EQ(result.calls, 1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  EXPECT_EQ(Holders(a, storage), 1);
}

TEST_F(WaitsFor, AnAbandonedWaitGetsNoGrant) {
  Peer a = Open(1);
  Peer b = Open(2);
  Result result;
  Await(b, "n", kForever, &result);
  Abandon(b, {b.calls});
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  EXPECT_EQ(CodeOf(result.opened), StatusCode::kAborted);
  EXPECT_EQ(Holders(a, storage), 1);
}

TEST_F(WaitsFor, ASessionsEndEndsItsWaits) {
  Peer a = Open(1);
  Result result;
  Await(a, "n", kForever, &result);
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(CodeOf(result.opened), StatusCode::kUnauthenticated);
}

TEST_F(WaitsFor, TheBrokersEndEndsAllWaits) {
  Peer a = Open(1);
  Result result;
  Await(a, "n", kForever, &result);
  broker_.BeginStop();
  EXPECT_EQ(CodeOf(result.opened), StatusCode::kUnavailable);
  EXPECT_EQ(CodeOf(OpenName(a, "n")), StatusCode::kUnavailable);
}

TEST_F(WaitsFor, AnotherUidsNameIsNotWhatOneWaitsFor) {
  Peer mine = Open(1);
  Peer root = Open(2, 0);
  Result result;
  const uint64_t wait = Await(mine, "n", kForever, &result);
  ASSERT_TRUE(Publish(root, "n", Made(root)).ok());
  EXPECT_EQ(result.calls, 0);
  broker_.CancelWait(wait);
}

class Watches : public BrokerTest {
 protected:
  std::vector<std::string> Kinds(uint64_t watch) {
    std::vector<std::string> kinds;
    const auto events = broker_.TakeEvents(watch, 100);
    for (const Event& event : *events) kinds.emplace_back(Name(event.kind));
    return kinds;
  }
};

TEST_F(Watches, TellALifeInOrder) {
  Peer a = Open(1);
  ASSERT_TRUE(broker_.Watch(*a.connection, a.token, "", 1, [] {}).ok());
  Peer b = Open(2);
  const StorageId storage = Made(b);
  ASSERT_TRUE(Publish(b, "n", storage).ok());
  ASSERT_TRUE(OpenName(a, "n").ok());
  ASSERT_TRUE(broker_.Rename(*b.connection, b.token, "n", "m", false).ok());
  Release(a, storage);
  Release(b, storage);
  ASSERT_TRUE(broker_.Unpublish(*b.connection, b.token, "m").ok());
  broker_.LeaseClosed(b.id.serial);
  EXPECT_THAT(Kinds(1), ElementsAre("session-opened", "created", "published", "attached", "renamed",
                                    "released", "released", "unpublished", "freed", "session-ended"));
}

TEST_F(Watches, APrefixShowsItsNamesOnly) {
  Peer a = Open(1);
  ASSERT_TRUE(broker_.Watch(*a.connection, a.token, "train/", 1, [] {}).ok());
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "train/1", storage).ok());
  ASSERT_TRUE(Publish(a, "test/1", Made(a)).ok());
  EXPECT_THAT(Kinds(1), ElementsAre("published"));
}

TEST_F(Watches, APrefixShowsWhatHappensToAStorageUnderAnyOfItsNames) {
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "other/1", storage).ok());
  ASSERT_TRUE(Publish(a, "train/1", storage).ok());
  ASSERT_TRUE(broker_.Watch(*a.connection, a.token, "train/", 1, [] {}).ok());
  ASSERT_TRUE(broker_.Watch(*a.connection, a.token, "other/", 2, [] {}).ok());
  ASSERT_TRUE(Attach(b, storage).ok());
  const auto train = broker_.TakeEvents(1, 100);
  ASSERT_EQ(train->size(), 1u);
  EXPECT_EQ((*train)[0].kind, EventKind::kAttached);
  EXPECT_EQ((*train)[0].name, "train/1");
  const auto other = broker_.TakeEvents(2, 100);
  ASSERT_EQ(other->size(), 1u);
  EXPECT_EQ((*other)[0].name, "other/1");
}

TEST_F(Watches, AnotherUidsEventsAreNotShown) {
  Peer mine = Open(1);
  ASSERT_TRUE(broker_.Watch(*mine.connection, mine.token, "", 1, [] {}).ok());
  Peer root = Open(2, 0);
  Made(root);
  EXPECT_THAT(Kinds(1), IsEmpty());
}

TEST_F(Watches, ASessionsEndEndsThem) {
  Peer a = Open(1);
  int wakes = 0;
  ASSERT_TRUE(broker_.Watch(*a.connection, a.token, "", 1, [&] { ++wakes; }).ok());
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(CodeOf(broker_.TakeEvents(1, 100)), StatusCode::kUnauthenticated);
  broker_.StopWatch(1);
}

}  // namespace
}  // namespace tensorbroker
