// Sessions: who may have one, what a token is worth, and how each end of one is carried out.
#include "tests/server/fixture.h"

namespace tensorbroker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SessionRules : public BrokerTest {};

TEST_F(SessionRules, AnotherUidIsRefusedWithItsNumberAndWhatWouldAdmitIt) {  // Case S2.
  const auto connection = Connect(7, 1001);
  const auto refused = broker_.OpenSession(*connection, 1, "test", "x");
  EXPECT_EQ(CodeOf(refused), StatusCode::kPermissionDenied);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("uid 1001"));
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("--socket-group"));
}

TEST_F(SessionRules, AGroupAdmitsItsMembers) {
  PeerIdentity member;
  member.uid = 1001;
  member.gid = 5;
  member.groups = {5, 50};
  EXPECT_TRUE(CheckAdmitted({kUid, 50}, member).ok());
  member.groups = {5};
  EXPECT_EQ(CodeOf(CheckAdmitted({kUid, 50}, member)), StatusCode::kPermissionDenied);
}

TEST_F(SessionRules, AProtocolOfAnotherAgeIsRefusedNamingBothAndWhichIsOlder) {
  const auto connection = Connect(7);
  const auto newer = broker_.OpenSession(*connection, 9, "9.9", "x");
  EXPECT_EQ(CodeOf(newer), StatusCode::kFailedPrecondition);
  EXPECT_THAT(TextOf(newer.status()), HasSubstr("protocol 9"));
  EXPECT_THAT(TextOf(newer.status()), HasSubstr("the broker is older"));
  EXPECT_THAT(TextOf(broker_.OpenSession(*connection, 0, "0.0", "x").status()),
              HasSubstr("the client is older"));
}

TEST_F(SessionRules, ALongOrControlledLabelIsRefused) {
  const auto connection = Connect(7);
  EXPECT_EQ(CodeOf(broker_.OpenSession(*connection, 1, "t", std::string(65, 'x'))),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(broker_.OpenSession(*connection, 1, "t", "a\nb")), StatusCode::kInvalidArgument);
}

TEST_F(SessionRules, AGuessedTokenIsRefusedAndNotRepeated) {  // Case S3.
  Peer a = Open(1);
  std::string guess = a.token;
  guess[15] ^= 1;
  const auto refused = broker_.Info(*a.connection, guess);
  EXPECT_EQ(CodeOf(refused), StatusCode::kUnauthenticated);
  EXPECT_THAT(TextOf(refused.status()), Not(HasSubstr(guess)));
  EXPECT_EQ(CodeOf(broker_.Info(*a.connection, "")), StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(broker_.Info(*a.connection, std::string(16, '\0'))), StatusCode::kUnauthenticated);
}

TEST_F(SessionRules, AStolenTokenIsOfNoUseInAnotherProcess) {  // Case S3.
  Peer a = Open(1);
  Peer thief = Open(2);
  const StorageId storage = Made(a);
  EXPECT_EQ(CodeOf(broker_.Release(*thief.connection, a.token, {0, {{storage, 1}}, {}})),
            StatusCode::kUnauthenticated);
  EXPECT_EQ(Holders(a, storage), 1);
}

TEST_F(SessionRules, NobodyReleasesAnothersHold) {  // Case S3.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId storage = Made(a);
  Release(b, storage, 5);
  EXPECT_EQ(Holders(a, storage), 1);
}

TEST_F(SessionRules, ALeaseTokenIsGoodOnce) {  // Case S3.
  Peer a = OpenUnbound(1);
  EXPECT_TRUE(broker_.BindLease(a.lease_token, *a.connection->peer).ok());
  EXPECT_EQ(CodeOf(broker_.BindLease(a.lease_token, *a.connection->peer)), StatusCode::kUnauthenticated);
}

TEST_F(SessionRules, ALeaseIsOfTheSessionsProcess) {
  Peer a = OpenUnbound(1);
  const auto other = Connect(2);
  EXPECT_EQ(CodeOf(broker_.BindLease(a.lease_token, *other->peer)), StatusCode::kUnauthenticated);
  EXPECT_TRUE(broker_.BindLease(a.lease_token, *a.connection->peer).ok());
}

TEST_F(SessionRules, ASessionWithoutALeaseEndsAfterFiveSeconds) {
  Peer slow = OpenUnbound(1);
  Peer bound = Open(2);
  const StorageId storage = Made(slow);
  ASSERT_FALSE(host_.wakes.empty());
  clock_.Advance(std::chrono::seconds(6));
  EXPECT_EQ(CodeOf(broker_.BindLease(slow.lease_token, *slow.connection->peer)),
            StatusCode::kUnauthenticated);
  broker_.RunTimers();
  EXPECT_THAT(host_.ended, ElementsAre(slow.id.serial));
  EXPECT_EQ(Holders(bound, storage), -1);
  EXPECT_TRUE(broker_.Info(*bound.connection, bound.token).ok());
}

TEST_F(SessionRules, DeathReleasesItsHoldsAndNoOthers) {  // Case L4.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId alone = Made(a);
  const StorageId shared = Made(a);
  ASSERT_TRUE(Attach(b, shared).ok());
  const StorageId others = Made(b);
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(Holders(b, alone), -1);
  EXPECT_EQ(Holders(b, shared), 1);
  EXPECT_EQ(Holders(b, others), 1);
  EXPECT_EQ(CodeOf(broker_.Info(*a.connection, a.token)), StatusCode::kUnauthenticated);
}

TEST_F(SessionRules, AThousandHoldsAndTheirBytesGoWithTheSession) {  // Case L4.
  Peer a = Open(1);
  for (int i = 0; i < 2500; ++i) Made(a, i % 10 == 0 ? 1 : 0);
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(broker_.storages(), 0u);
  EXPECT_EQ(budget_.used_bytes(), 0);
}

TEST_F(SessionRules, CloseEndsItAtOnce) {
  Peer a = Open(1);
  Made(a);
  EXPECT_TRUE(broker_.CloseSession(*a.connection, a.token).ok());
  EXPECT_EQ(broker_.sessions(), 0u);
  EXPECT_EQ(CodeOf(broker_.CloseSession(*a.connection, a.token)), StatusCode::kUnauthenticated);
}

TEST_F(SessionRules, AnUnboundSessionEndsWithItsProcess) {
  Peer a = OpenUnbound(1);
  broker_.ProcessEnded(a.id.serial);
  EXPECT_EQ(broker_.sessions(), 0u);
}

TEST_F(SessionRules, BytesThatAForkedChildMayTouchAreQuarantinedUntilItsEnd) {  // Case P7.
  Peer a = Open(1);
  Peer b = Open(2);
  const StorageId alone = Made(a, 4096);
  const StorageId shared = Made(a, 4096);
  ASSERT_TRUE(Attach(b, shared).ok());
  broker_.ProcessEnded(a.id.serial);
  const auto record = Stat(b, alone);
  ASSERT_TRUE(record.ok());
  EXPECT_EQ(record->state, StorageState::kQuarantined);
  EXPECT_EQ(record->holder_count, 0u);
  ASSERT_EQ(record->holders.size(), 1u);
  EXPECT_TRUE(record->holders[0].quarantined);
  EXPECT_EQ(Stat(b, shared)->state, StorageState::kHeld);
  EXPECT_EQ(Holders(b, shared), 1);
  EXPECT_EQ(broker_.Info(*b.connection, b.token)->quarantined_bytes, 4096);
  EXPECT_EQ(CodeOf(Attach(b, alone)), StatusCode::kNotFound);
  // What the dead session held stays even when all others let go of it.
  Release(b, shared);
  EXPECT_EQ(Stat(b, shared)->state, StorageState::kQuarantined);
  broker_.LeaseClosed(a.id.serial);
  EXPECT_EQ(Holders(b, alone), -1);
  EXPECT_EQ(Holders(b, shared), -1);
  EXPECT_EQ(broker_.Info(*b.connection, b.token)->quarantined_bytes, 0);
}

TEST_F(SessionRules, AChildClaimsWhatItsDeadParentHeld) {  // Case P7.
  Peer parent = Open(1);
  const StorageId held = Made(parent);
  const StorageId dropped = Made(parent);
  Release(parent, dropped);
  broker_.ProcessEnded(parent.id.serial);
  Peer child = Open(2);
  const auto grants =
      broker_.ClaimInherited(*child.connection, child.token, parent.token, {held, dropped, {5, 5}});
  ASSERT_TRUE(grants.ok()) << grants.status();
  ASSERT_EQ(grants->size(), 1u);
  EXPECT_EQ((*grants)[0].storage, held);
  EXPECT_EQ((*grants)[0].access, GrantAccess::kReadWrite);
  broker_.LeaseClosed(parent.id.serial);
  EXPECT_EQ(Holders(child, held), 1);
}

TEST_F(SessionRules, NoOtherUidClaimsByAStolenParentsToken) {  // Case S3.
  Peer parent = Open(1);
  const StorageId held = Made(parent);
  Peer root = Open(2, 0);
  EXPECT_EQ(CodeOf(broker_.ClaimInherited(*root.connection, root.token, parent.token, {held})),
            StatusCode::kUnauthenticated);
}

TEST_F(SessionRules, AQuarantinedSessionsTokenAsksForNothing) {
  Peer a = Open(1);
  broker_.ProcessEnded(a.id.serial);
  EXPECT_EQ(CodeOf(Create(a, 8)), StatusCode::kUnauthenticated);
}

TEST_F(SessionRules, TheyAreListedWithWhatTheyHold) {
  Peer a = Open(1);
  Made(a, 100);
  Made(a, 200);
  Open(2);
  uint64_t cursor = 0;
  bool end = false;
  const auto records = broker_.ListSessionsPage(*a.connection, a.token, true, &cursor, &end);
  ASSERT_TRUE(records.ok());
  EXPECT_TRUE(end);
  ASSERT_EQ(records->size(), 2u);
  EXPECT_EQ((*records)[0].label, "client-1");
  EXPECT_EQ((*records)[0].storages, 2u);
  EXPECT_EQ((*records)[0].bytes, 300);
  EXPECT_EQ((*records)[0].held.size(), 2u);
}

TEST_F(SessionRules, NobodyMakesTheBrokerLookAtTheMachineWithoutASession) {
  Peer a = Open(1);
  const auto stranger = Connect(2);
  EXPECT_EQ(CodeOf(broker_.Info(*stranger, std::string(16, 'x'))), StatusCode::kUnauthenticated);
  EXPECT_EQ(CodeOf(broker_.Info(*stranger, a.token)), StatusCode::kUnauthenticated);
  EXPECT_EQ(looks_, 0);
  EXPECT_TRUE(broker_.Info(*a.connection, a.token).ok());
  EXPECT_EQ(looks_, 1);
}

class FewSessions : public BrokerTest {
 protected:
  static Limits Few() {
    Limits limits;
    limits.sessions = 2;
    return limits;
  }
  FewSessions() : BrokerTest(Few()) {}
};

// One member of the socket group cannot lock the rest out.
class SharedSessions : public BrokerTest {
 protected:
  static constexpr uid_t kMember = 2000;
  static constexpr gid_t kGroup = kMember;  // the fixture's peers have the gid of their uid
  static Limits Few() {
    Limits limits;
    limits.sessions = 4;
    limits.pending_waits = 4;
    limits.watchers = 4;
    return limits;
  }
  SharedSessions() : BrokerTest(Few(), kCapacity, kGroup) {}
};

TEST_F(SharedSessions, AnotherUidGetsHalfOfThem) {
  Peer one = Open(1, kMember);
  Open(2, kMember);
  const auto third = Connect(3, kMember);
  const auto refused = broker_.OpenSession(*third, 1, "t", "x");
  EXPECT_EQ(CodeOf(refused), StatusCode::kResourceExhausted);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("uid 2000 has 2 sessions"));
  Peer mine = Open(4);
  Open(5);  // the broker's own uid gets what is left
  broker_.LeaseClosed(mine.id.serial);
  EXPECT_EQ(CodeOf(broker_.OpenSession(*third, 1, "t", "x")), StatusCode::kResourceExhausted);
  broker_.LeaseClosed(one.id.serial);
  EXPECT_TRUE(broker_.OpenSession(*third, 1, "t", "x").ok());
}

TEST_F(SharedSessions, AnotherUidGetsHalfOfTheWaitsAndOfTheWatchers) {
  Peer member = Open(1, kMember);
  Peer mine = Open(2);
  const auto wait = [&](Peer& peer, uint64_t id) {
    StatusCode code = StatusCode::kOk;
    auto result = std::make_shared<StatusCode>(StatusCode::kOk);
    broker_.AwaitOpen(*peer.connection, {peer.token, 0, "n"}, kForever, id,
                      [result](StatusOr<Opened> opened) { *result = CodeOf(opened); });
    code = *result;
    return code;
  };
  EXPECT_EQ(wait(member, 1), StatusCode::kOk);
  EXPECT_EQ(wait(member, 2), StatusCode::kOk);
  EXPECT_EQ(wait(member, 3), StatusCode::kResourceExhausted);
  EXPECT_EQ(wait(mine, 4), StatusCode::kOk);
  broker_.CancelWait(1);
  EXPECT_EQ(wait(member, 5), StatusCode::kOk);

  const auto watch = [&](Peer& peer, uint64_t id) {
    return CodeOf(broker_.Watch(*peer.connection, peer.token, "", id, [] {}));
  };
  EXPECT_EQ(watch(member, 1), StatusCode::kOk);
  EXPECT_EQ(watch(member, 2), StatusCode::kOk);
  EXPECT_EQ(watch(member, 3), StatusCode::kResourceExhausted);
  EXPECT_EQ(watch(mine, 4), StatusCode::kOk);
  broker_.StopWatch(1);
  EXPECT_EQ(watch(member, 5), StatusCode::kOk);
}

TEST_F(FewSessions, OneOverTheLimitIsRefused) {
  Peer a = Open(1);
  Open(2);
  const auto connection = Connect(3);
  const auto refused = broker_.OpenSession(*connection, 1, "t", "x");
  EXPECT_EQ(CodeOf(refused), StatusCode::kResourceExhausted);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("2 sessions"));
  broker_.LeaseClosed(a.id.serial);
  EXPECT_TRUE(broker_.OpenSession(*connection, 1, "t", "x").ok());
}

}  // namespace
}  // namespace tensorbroker
