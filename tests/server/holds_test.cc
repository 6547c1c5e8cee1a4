// Holds: creation, grants and their return, lost replies, deletion.
#include <algorithm>

#include "tests/server/fixture.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Holds : public BrokerTest {};

TEST_F(Holds, ACreationsCodesSayWhatIsWrong) {  // Case C4.
  Peer a = Open(1);
  const auto eight = Create(a, 8);
  ASSERT_TRUE(eight.ok());
  EXPECT_EQ(eight->size_bytes, 8);
  EXPECT_EQ(eight->access, GrantAccess::kReadWrite);
  EXPECT_EQ(CodeOf(Create(a, int64_t{1} << 60)), StatusCode::kResourceExhausted);
  EXPECT_EQ(CodeOf(Create(a, -1)), StatusCode::kInvalidArgument);
  CreateCall nine;
  nine.token = a.token;
  nine.size_bytes = 8;
  nine.header = *Header::Contiguous({9}, DType::kUInt8);
  EXPECT_EQ(CodeOf(Create(a, nine)), StatusCode::kOutOfRange);
}

TEST_F(Holds, AGpuIsUnimplementedWithTheReason) {  // Case F9.
  Peer a = Open(1);
  CreateCall call;
  call.token = a.token;
  call.size_bytes = 8;
  call.device = {DeviceType::kCuda, 0};
  const auto refused = Create(a, call);
  EXPECT_EQ(CodeOf(refused), StatusCode::kUnimplemented);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("no GPU in a test"));
}

TEST_F(Holds, NoBytesNeedNoSegment) {  // Case C5.
  Peer a = Open(1);
  const auto none = Create(a, 0);
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->segment);
  EXPECT_EQ(budget_.used_bytes(), 0);
  EXPECT_EQ(Holders(a, none->storage), 1);
}

TEST_F(Holds, AShortageNamesAskedFreeAndTheTopHolders) {  // Case C3.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId large = Made(a, 600 << 10);
  Made(b, 300 << 10);
  const auto refused = [&] {
    StatusOr<Grant> result = InternalError("not done");
    CreateCall call;
    call.token = a.token;
    call.size_bytes = 500 << 10;
    broker_.Create(
        *a.connection, call, std::make_shared<std::atomic<bool>>(false), [&](StatusOr<Created> created) {
          result = created.ok() ? StatusOr<Grant>(created->grant) : StatusOr<Grant>(created.status());
        });
    EXPECT_EQ(host_.flushes, 1);
    clock_.Advance(std::chrono::milliseconds(10));
    broker_.RunTimers();
    return result;
  }();
  EXPECT_EQ(CodeOf(refused), StatusCode::kResourceExhausted);
  const std::string text = TextOf(refused.status());
  EXPECT_THAT(text, HasSubstr("asked 500"));
  EXPECT_THAT(text, HasSubstr("free 124"));
  EXPECT_THAT(text, HasSubstr(ToString(large)));
  EXPECT_THAT(text, HasSubstr("pid 1 (client-1)"));
  EXPECT_THAT(text, HasSubstr("pid 2 (client-2)"));
  EXPECT_LE(text.size(), kMaxMessageBytes);
}

TEST_F(Holds, OtherUidsHoldersAppearAsASumOnly) {  // Case S1.
  Peer mine = Open(1);
  Peer roots = Open(2, 0);
  Made(roots, 600 << 10);
  const auto refused = Create(mine, int64_t{1} << 40);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("others: 614400 bytes"));
  EXPECT_THAT(TextOf(refused.status()), Not(HasSubstr("client-2")));
}

// Case S1. The counts are right whether or not the holders themselves are asked for.
TEST_F(Holds, HoldersAreCountedForWhoeverAsks) {
  Peer mine = Open(1);
  Peer roots = Open(2, 0);
  const StorageId storage = Made(mine);
  ASSERT_TRUE(Attach(roots, storage).ok());
  const auto counts = [&](Peer& peer, bool holders) {
    uint64_t cursor = 0;
    bool end = false;
    const auto page = broker_.ListPage(*peer.connection, {peer.token, "", holders}, &cursor, &end);
    EXPECT_EQ(page->size(), 1u);
    EXPECT_EQ(page->front().holders.size(), holders ? page->front().holder_count : 0u);
    return std::pair(page->front().holder_count, page->front().other_uids_holders);
  };
  for (const bool holders : {false, true}) {
    EXPECT_EQ(counts(mine, holders), std::pair(1u, int64_t{1}));
    EXPECT_EQ(counts(roots, holders), std::pair(2u, int64_t{0}));
  }
  Release(roots, storage);
  EXPECT_EQ(counts(mine, false), std::pair(1u, int64_t{0}));
  ASSERT_TRUE(Attach(roots, storage).ok());
  Release(mine, storage);
  EXPECT_EQ(counts(mine, false), std::pair(0u, int64_t{1}));
  EXPECT_EQ(counts(roots, false), std::pair(1u, int64_t{0}));
}

TEST_F(Holds, AShortageAsksForReleasesBeforeItRefuses) {
  Peer a = Open(1);
  const StorageId large = Made(a, 900 << 10);
  host_.on_flush = [&] { Release(a, large); };
  StatusOr<Grant> result = InternalError("not done");
  CreateCall call;
  call.token = a.token;
  call.size_bytes = 800 << 10;
  broker_.Create(
      *a.connection, call, std::make_shared<std::atomic<bool>>(false), [&](StatusOr<Created> created) {
        result = created.ok() ? StatusOr<Grant>(created->grant) : StatusOr<Grant>(created.status());
      });
  clock_.Advance(std::chrono::milliseconds(10));
  broker_.RunTimers();
  EXPECT_TRUE(result.ok()) << result.status();
}

class LargeHolds : public BrokerTest {
 protected:
  LargeHolds() : BrokerTest({}, int64_t{1} << 30) {}
};

TEST_F(LargeHolds, ACreationWhoseCallerHasLeftLeavesNothing) {  // Case L6.
  Peer a = Open(1);
  host_.hold_reservations = true;
  auto gone = std::make_shared<std::atomic<bool>>(false);
  CreateCall call;
  call.token = a.token;
  call.size_bytes = 64 << 20;
  StatusCode code = StatusCode::kOk;
  broker_.Create(*a.connection, call, gone, [&](StatusOr<Created> created) { code = CodeOf(created); });
  gone->store(true);
  host_.RunReservations();
  EXPECT_EQ(code, StatusCode::kAborted);
  EXPECT_EQ(budget_.used_bytes(), 0);
  EXPECT_EQ(broker_.storages(), 0u);
}

TEST_F(LargeHolds, ACreationOfASessionThatEndedLeavesNothing) {  // Case L6.
  Peer a = Open(1);
  host_.hold_reservations = true;
  CreateCall call;
  call.token = a.token;
  call.size_bytes = 64 << 20;
  StatusCode code = StatusCode::kOk;
  broker_.Create(*a.connection, call, std::make_shared<std::atomic<bool>>(false),
                 [&](StatusOr<Created> created) { code = CodeOf(created); });
  broker_.LeaseClosed(a.id.serial);
  host_.RunReservations();
  EXPECT_EQ(code, StatusCode::kUnauthenticated);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

TEST_F(LargeHolds, OthersAreServedWhileMemoryIsReserved) {  // Case C9.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(b);
  ASSERT_TRUE(Publish(b, "n", storage).ok());
  host_.hold_reservations = true;
  CreateCall call;
  call.token = a.token;
  call.size_bytes = 512 << 20;
  bool done = false;
  broker_.Create(*a.connection, call, std::make_shared<std::atomic<bool>>(false),
                 [&](StatusOr<Created>) { done = true; });
  EXPECT_TRUE(OpenName(b, "n").ok());
  EXPECT_FALSE(done);
  host_.RunReservations();
  EXPECT_TRUE(done);
}

TEST_F(Holds, ASessionHasOneHoldHoweverManyGrants) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Attach(a, storage).ok());
  ASSERT_TRUE(Attach(a, storage).ok());
  EXPECT_EQ(Holders(a, storage), 1);
  Release(a, storage, 2);
  EXPECT_EQ(Holders(a, storage), 1);
  Release(a, storage, 1);
  EXPECT_EQ(Holders(a, storage), -1);
}

TEST_F(Holds, AReleaseThatCrossesAnOpenTakesNothingAway) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  ASSERT_TRUE(OpenName(a, "n").ok());  // under way when the client's last view dies
  Release(a, storage, 1);
  EXPECT_EQ(Holders(a, storage), 1);
}

TEST_F(Holds, ABatchOfReleasesThatComesTwiceIsTakenOnce) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  CreateCall call;
  call.token = a.token;
  call.size_bytes = -1;  // what rides with a call is taken whatever becomes of it
  call.releases = {1, {{storage, 1}}, {}};
  EXPECT_EQ(CodeOf(Create(a, call)), StatusCode::kInvalidArgument);
  EXPECT_EQ(Holders(a, storage), 0);
  ASSERT_TRUE(OpenName(a, "n").ok());  // a grant that the second copy must not take
  EXPECT_TRUE(broker_.Release(*a.connection, a.token, call.releases).ok());
  EXPECT_EQ(Holders(a, storage), 1);
  EXPECT_TRUE(broker_.Release(*a.connection, a.token, {2, {{storage, 1}}, {}}).ok());
  EXPECT_EQ(Holders(a, storage), 0);
  // A copy that comes when the next batch has been taken already.
  ASSERT_TRUE(OpenName(a, "n").ok());
  EXPECT_TRUE(broker_.Release(*a.connection, a.token, call.releases).ok());
  EXPECT_EQ(Holders(a, storage), 1);
  // Each session counts for itself.
  Peer b = Open(2);
  ASSERT_TRUE(OpenName(b, "n").ok());
  EXPECT_TRUE(broker_.Release(*b.connection, b.token, call.releases).ok());
  EXPECT_EQ(Holders(a, storage), 1);
}

TEST_F(Holds, SurplusAndUnknownReleasesAreIgnored) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const StorageId other = Made(a);
  Release(a, storage, 1000);
  Release(a, storage, 1);
  Release(a, {kEpoch, 999}, 1);
  Release(a, {kEpoch + 1, other.serial}, 1);
  Release(a, other, 0);
  EXPECT_EQ(Holders(a, other), 1);
}

TEST_F(Holds, ReleasesRideInACreation) {
  Peer a = Open(1);
  const StorageId storage = Made(a, 900 << 10);
  CreateCall call;
  call.token = a.token;
  call.size_bytes = 900 << 10;
  call.releases.returned = {{storage, 1}};
  EXPECT_TRUE(Create(a, call).ok());
  EXPECT_EQ(Holders(a, storage), -1);
}

TEST_F(Holds, AnAbandonedCallsGrantIsTakenBack) {
  Peer a = Open(1);
  const StorageId kept = Made(a);
  const StorageId lost = Made(a);
  Abandon(a, {a.calls});
  EXPECT_EQ(Holders(a, lost), -1);
  Abandon(a, {a.calls});
  EXPECT_EQ(Holders(a, kept), 1);
}

TEST_F(Holds, AnAbandonedCallThatArrivesLaterIsRefused) {
  Peer a = Open(1);
  Abandon(a, {a.calls + 1});
  EXPECT_EQ(CodeOf(Create(a, 8)), StatusCode::kAborted);
  EXPECT_EQ(broker_.storages(), 0u);
}

TEST_F(Holds, ACallThatArrivesTwiceIsAnsweredTwiceAndGrantedOnce) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  const OpenCall call{a.token, 50, "n", GrantAccess::kReadOnly};
  const auto first = broker_.Open(*a.connection, call);
  const auto second = broker_.Open(*a.connection, call);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->grant.storage, first->grant.storage);
  EXPECT_EQ(second->version, first->version);
  EXPECT_EQ(*second->header, *first->header);
  ASSERT_TRUE(broker_.Unpublish(*a.connection, a.token, "n").ok());
  Release(a, storage, 2);  // Create's grant, and Open's
  EXPECT_EQ(Holders(a, storage), -1);
}

TEST_F(Holds, DeletedIsGoneForOthersAndStaysForItsHolder) {  // Case L8.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  EXPECT_EQ(*broker_.Delete(*b.connection, b.token, storage), 1u);
  EXPECT_EQ(CodeOf(Attach(b, storage)), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(OpenName(b, "n")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Publish(a, "m", storage)), StatusCode::kNotFound);
  EXPECT_EQ(Stat(a, storage)->state, StorageState::kDeleted);
  EXPECT_GT(budget_.used_bytes(), 0);
  Release(a, storage);
  EXPECT_EQ(budget_.used_bytes(), 0);
  EXPECT_EQ(CodeOf(broker_.Delete(*b.connection, b.token, storage)), StatusCode::kNotFound);
}

TEST_F(Holds, DeletedWithoutAHoldIsFreedAtOnce) {  // Case L8.
  Peer a = Open(1);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Publish(a, "n", storage).ok());
  Release(a, storage);
  EXPECT_EQ(*broker_.Delete(*a.connection, a.token, storage), 0u);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

TEST_F(Holds, AnOldIdNamesNothingAfterTenThousandCycles) {  // Case L8.
  Peer a = Open(1);
  const StorageId old = Made(a, 1);
  Release(a, old);
  for (int i = 0; i < 10'000; ++i) Release(a, Made(a, 1));
  EXPECT_EQ(CodeOf(Attach(a, old)), StatusCode::kNotFound);
}

TEST_F(Holds, AnotherUidSeesNothing) {  // Case S1.
  Peer roots = Open(1, 0);
  Peer mine = Open(2);
  const StorageId storage = Made(roots);
  ASSERT_TRUE(Publish(roots, "secret", storage).ok());
  EXPECT_EQ(CodeOf(Attach(mine, storage)), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(OpenName(mine, "secret")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Stat(mine, storage)), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(broker_.Delete(*mine.connection, mine.token, storage)), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(broker_.Rename(*mine.connection, mine.token, "secret", "x", false)),
            StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(broker_.Unpublish(*mine.connection, mine.token, "secret")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Publish(mine, "secret", Made(mine))), StatusCode::kPermissionDenied);
  EXPECT_EQ(CodeOf(broker_.CheckMayStop(*mine.connection, mine.token)), StatusCode::kOk);
}

TEST_F(Holds, ASegmentIsForThoseWhoHoldAStorageInIt) {
  Peer a = Open(1);
  Peer b = Open(2);
  const auto grant = Create(a, 4096);
  ASSERT_TRUE(grant.ok());
  EXPECT_TRUE(broker_.FetchSegment(a.id.serial, grant->segment, GrantAccess::kReadWrite).ok());
  EXPECT_EQ(CodeOf(broker_.FetchSegment(b.id.serial, grant->segment, GrantAccess::kReadOnly)),
            StatusCode::kNotFound);
  ASSERT_TRUE(Attach(b, grant->storage).ok());
  EXPECT_TRUE(broker_.FetchSegment(b.id.serial, grant->segment, GrantAccess::kReadOnly).ok());
  EXPECT_EQ(CodeOf(broker_.FetchSegment(b.id.serial, grant->segment, GrantAccess::kReadWrite)),
            StatusCode::kPermissionDenied);
  EXPECT_EQ(
      CodeOf(broker_.FetchSegment(a.id.serial, {kEpoch + 1, grant->segment.serial}, GrantAccess::kReadOnly)),
      StatusCode::kNotFound);
}

TEST_F(Holds, ARetiredSegmentIsToldToThoseWhoFetchedIt) {
  Peer a = Open(1);
  Peer b = Open(2);
  Peer c = Open(3);
  const auto grant = Create(a, 4096);
  ASSERT_TRUE(Attach(b, grant->storage).ok());
  ASSERT_TRUE(Attach(c, grant->storage).ok());
  ASSERT_TRUE(broker_.FetchSegment(a.id.serial, grant->segment, GrantAccess::kReadOnly).ok());
  ASSERT_TRUE(broker_.FetchSegment(b.id.serial, grant->segment, GrantAccess::kReadOnly).ok());
  broker_.LeaseClosed(b.id.serial);
  Release(c, grant->storage);
  EXPECT_TRUE(host_.retired.empty());
  Release(a, grant->storage);
  EXPECT_THAT(host_.retired, ::testing::ElementsAre(std::make_pair(a.id.serial, grant->segment)));
}

TEST_F(Holds, AListPagesByIdAndShowsEachThatLivedThroughoutOnce) {  // Case C6.
  Peer a = Open(1);
  std::vector<StorageId> stay;
  std::vector<StorageId> go;
  for (int i = 0; i < 2500; ++i) (i % 2 == 0 ? stay : go).push_back(Made(a, 0));
  uint64_t cursor = 0;
  bool end = false;
  std::vector<StorageId> seen;
  while (!end) {
    const auto page = broker_.ListPage(*a.connection, {a.token, "", false}, &cursor, &end);
    ASSERT_TRUE(page.ok());
    EXPECT_LE(page->size(), 1000u);
    for (const StorageRecord& record : *page) seen.push_back(record.id);
    for (int i = 0; i < 300 && !go.empty(); ++i) {
      Release(a, go.back());
      go.pop_back();
      Made(a, 0);
    }
  }
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(std::adjacent_find(seen.begin(), seen.end()), seen.end());
  EXPECT_TRUE(std::includes(seen.begin(), seen.end(), stay.begin(), stay.end()));
}

class FewStorages : public BrokerTest {
 protected:
  static Limits Few() {
    Limits limits;
    limits.storages_per_uid = 3;
    limits.transfers_per_session = 2;
    return limits;
  }
  FewStorages() : BrokerTest(Few()) {}
};

TEST_F(FewStorages, OneOverTheLimitIsRefused) {
  Peer a = Open(1);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(Create(a, 1).ok());
  EXPECT_EQ(CodeOf(Create(a, 1)), StatusCode::kResourceExhausted);
  Peer root = Open(2, 0);
  EXPECT_TRUE(Create(root, 1).ok());
}

TEST_F(FewStorages, TransferHoldsAreCountedUntilTheyAreTaken) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const auto token = broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly});
  ASSERT_TRUE(broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly}).ok());
  EXPECT_EQ(CodeOf(broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly})),
            StatusCode::kResourceExhausted);
  ASSERT_TRUE(broker_.Import(*a.connection, {a.token, 9, storage, *token}).ok());
  EXPECT_TRUE(broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly}).ok());
}

class Handles : public BrokerTest {
 protected:
  StatusOr<Opened> Import(Peer& peer, StorageId storage, const std::string& token) {
    return broker_.Import(*peer.connection, {peer.token, ++peer.calls, storage, token});
  }
};

TEST_F(Handles, OneOutlivesItsSenderAndIsTheFirstImportersHold) {  // Case T1.
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const std::string token = *broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly});
  broker_.LeaseClosed(a.id.serial);
  Peer b = Open(2);
  EXPECT_EQ(Stat(b, storage)->state, StorageState::kInFlight);
  EXPECT_THAT(Stat(b, storage)->in_flight_from_pids, ::testing::ElementsAre(1));
  clock_.Advance(std::chrono::minutes(9));
  broker_.RunTimers();
  const auto first = Import(b, storage, token);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->grant.access, GrantAccess::kReadOnly);
  EXPECT_EQ(Stat(b, storage)->state, StorageState::kHeld);
  // Again while B holds it; after B's end it is consumed.
  Peer c = Open(3);
  ASSERT_TRUE(Import(c, storage, token).ok());
  Release(c, storage);
  Release(b, storage);
  const auto late = Import(c, storage, token);
  EXPECT_EQ(CodeOf(late), StatusCode::kNotFound);
  EXPECT_THAT(TextOf(late.status()), HasSubstr("consumed"));
}

TEST_F(Handles, AnImportWhoseAnswerWasLostTakesNothingOfIt) {
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  const std::string token = *broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly});
  Release(a, storage);
  ASSERT_TRUE(Import(b, storage, token).ok());
  Abandon(b, {b.calls});
  EXPECT_EQ(Stat(b, storage)->state, StorageState::kInFlight);
  ASSERT_TRUE(Import(b, storage, token).ok());
  // The same once the sender has ended: its time begins anew.
  broker_.LeaseClosed(a.id.serial);
  Abandon(b, {b.calls});
  EXPECT_EQ(Stat(b, storage)->state, StorageState::kInFlight);
  ASSERT_TRUE(Import(b, storage, token).ok());
  Abandon(b, {b.calls});
  clock_.Advance(std::chrono::minutes(10));
  broker_.RunTimers();
  EXPECT_EQ(Holders(b, storage), -1);
}

TEST_F(Handles, AnExportWhoseAnswerWasLostLeavesNothing) {
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  const ExportCall call{a.token, ++a.calls, storage, GrantAccess::kReadOnly};
  const std::string token = *broker_.Export(*a.connection, call);
  EXPECT_EQ(*broker_.Export(*a.connection, call), token);  // a retry makes no second one
  Release(a, storage);
  EXPECT_EQ(Stat(b, storage)->state, StorageState::kInFlight);
  Abandon(a, {call.call_id});
  EXPECT_EQ(Holders(b, storage), -1);
  EXPECT_EQ(budget_.used_bytes(), 0);
  // One that comes after it was abandoned.
  const StorageId other = Made(a);
  Abandon(a, {++a.calls});
  EXPECT_FALSE(broker_.Export(*a.connection, {a.token, a.calls, other, GrantAccess::kReadOnly}).ok());
  EXPECT_EQ(Stat(b, other)->state, StorageState::kHeld);
  // The answer was lost, yet somebody has the token: what was imported stays.
  const ExportCall third{a.token, ++a.calls, other, GrantAccess::kReadOnly};
  ASSERT_TRUE(Import(b, other, *broker_.Export(*a.connection, third)).ok());
  Release(a, other);
  Abandon(a, {third.call_id});
  EXPECT_EQ(Holders(b, other), 1);
}

TEST_F(Handles, OneThatNobodyLoadsIsFreedAfterItsTime) {  // Case T1.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  ASSERT_TRUE(broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly}).ok());
  Release(a, storage);
  clock_.Advance(std::chrono::hours(5));  // the sender lives: no limit
  broker_.RunTimers();
  EXPECT_EQ(Holders(b, storage), 0);
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(host_.wakes.back(), clock_.Now() + std::chrono::minutes(10));
  clock_.Advance(std::chrono::minutes(10));
  broker_.RunTimers();
  EXPECT_EQ(Holders(b, storage), -1);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

TEST_F(Handles, EachExportIsAHoldOfItsOwn) {
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  const std::string one = *broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly});
  const std::string two = *broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadWrite});
  Release(a, storage);
  ASSERT_TRUE(Import(b, storage, one).ok());
  ASSERT_TRUE(Import(b, storage, one).ok());
  Release(b, storage, 2);
  EXPECT_EQ(Stat(b, storage)->state, StorageState::kInFlight);
  EXPECT_EQ(Import(b, storage, two)->grant.access, GrantAccess::kReadWrite);
}

TEST_F(Handles, AGuessIsRefused) {  // Case S3.
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const StorageId other = Made(a);
  std::string token = *broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly});
  EXPECT_EQ(CodeOf(Import(a, other, token)), StatusCode::kNotFound);
  token[12] ^= 1;
  EXPECT_EQ(CodeOf(Import(a, storage, token)), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Import(a, storage, "")), StatusCode::kNotFound);
  EXPECT_EQ(CodeOf(Import(a, {kEpoch + 1, storage.serial}, token)), StatusCode::kNotFound);
}

TEST_F(Handles, AReadersHandleIsNeverWritable) {
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  ASSERT_TRUE(Attach(b, storage).ok());
  EXPECT_EQ(CodeOf(broker_.Export(*b.connection, {b.token, 0, storage, GrantAccess::kReadWrite})),
            StatusCode::kPermissionDenied);
  EXPECT_TRUE(broker_.Export(*b.connection, {b.token, 0, storage, GrantAccess::kReadOnly}).ok());
}

TEST_F(Handles, ADeletedStoragesHandlesAreVoid) {
  Peer a = Open(1);
  const StorageId storage = Made(a);
  const std::string token = *broker_.Export(*a.connection, {a.token, 0, storage, GrantAccess::kReadOnly});
  ASSERT_TRUE(broker_.Delete(*a.connection, a.token, storage).ok());
  EXPECT_EQ(CodeOf(Import(a, storage, token)), StatusCode::kNotFound);
  Release(a, storage);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

TEST(SipHash, GivesItsAuthorsNumbers) {
  std::array<uint64_t, 2> key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  std::string bytes;
  EXPECT_EQ(SipHash(key, bytes), 0x726fdb47dd0e0e31u);
  for (char c = 0; c < 15; ++c) bytes.push_back(c);
  EXPECT_EQ(SipHash(key, bytes), 0xa129ca6149be45e5u);
}

TEST(CallLogs, RememberTheLastGrantsOnly) {
  CallLog log(2);
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_TRUE(log.Begin(id).ok());
    log.Granted(id, {id, GrantAccess::kReadOnly, nullptr, 0});
  }
  EXPECT_FALSE(log.Abandon(1).has_value());
  EXPECT_EQ(log.Abandon(2)->storage, 2u);
  EXPECT_EQ(log.Abandon(3)->storage, 3u);
}

TEST(CallLogs, ACallUnderWayIsNotBegunTwice) {
  CallLog log(2);
  ASSERT_TRUE(log.Begin(1).ok());
  EXPECT_EQ(log.Begin(1).status().code(), StatusCode::kAborted);
  EXPECT_FALSE(log.Abandon(1).has_value());
  EXPECT_TRUE(log.AbandonedMeanwhile(1));
  EXPECT_EQ(log.Begin(1).status().code(), StatusCode::kAborted);
  log.Failed(1);
}

}  // namespace
}  // namespace tensorbroker
