#include "tensorbroker/client/hold_table.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <list>
#include <memory>
#include <thread>

#include "tensorbroker/client/session_registry.h"

namespace tensorbroker::internal {
namespace {

Grant GrantOf(uint64_t serial, GrantAccess access = GrantAccess::kReadOnly) {
  Grant grant;
  grant.storage = {7, serial};
  grant.size_bytes = 128;
  grant.segment = {7, serial};
  grant.segment_size_bytes = 4096;
  grant.access = access;
  return grant;
}

// A child that `forks` counts, until End.
class Fork {
 public:
  explicit Fork(Forks& forks) TB_NO_THREAD_SAFETY_ANALYSIS : forks_(forks) {
    forks_.Lock(true);
    pid_ = fork();
    if (pid_ == 0) {
      forks_.UnlockInChild();
      while (true) pause();
    }
    forks_.UnlockInParent();
  }
  ~Fork() { End(); }

  void End() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
    forks_.Reap();
  }

 private:
  Forks& forks_;
  pid_t pid_ = 0;
};

// A handle's own destructor would tell a session, which is not there: handles, and the tables they are in, stay for good.
class HoldTableTest : public ::testing::Test {
 protected:
  // Counts the grant in and gives the table's hold; the handle itself is not of interest.
  Hold* Add(const Grant& grant, GrantAccess access) {
    auto held = table_.Add(session_, grant, access);
    EXPECT_TRUE(held.ok()) << held.status();
    handles_->push_back(*held);
    return (*held)->hold();
  }
  void Drop(Hold* hold) { table_.HandleGone(hold); }
  // A batch that reaches the broker.
  Releases Taken(size_t max) {
    Releases releases = table_.Take(max).releases;
    table_.Delivered(releases.number);
    return releases;
  }

  Forks& forks_ = all_forks_->emplace_back();
  HoldTable& table_ = tables_->emplace_back(forks_);
  std::shared_ptr<Session> session_ = nullptr;
  static inline auto* const handles_ = new std::vector<std::shared_ptr<HeldStorage>>;
  static inline auto* const all_forks_ = new std::list<Forks>;
  static inline auto* const tables_ = new std::list<HoldTable>;
};

TEST_F(HoldTableTest, ReleaseGivesBackAllGrants) {
  Hold* hold = Add(GrantOf(1), GrantAccess::kReadOnly);
  EXPECT_EQ(Add(GrantOf(1), GrantAccess::kReadOnly), hold);
  EXPECT_EQ(Add(GrantOf(1), GrantAccess::kReadOnly), hold);
  EXPECT_EQ(hold->handles, 1u);
  EXPECT_TRUE(Taken(10).empty());
  EXPECT_TRUE(table_.HandleGone(hold));
  const Releases batch = Taken(10);
  ASSERT_EQ(batch.returned.size(), 1u);
  EXPECT_EQ(batch.returned[0].storage, (StorageId{7, 1}));
  EXPECT_EQ(batch.returned[0].grants, 3u);
  EXPECT_TRUE(Taken(10).empty());
}

TEST_F(HoldTableTest, ReadOnlyAndReadWriteAreTwoHandlesOfOneHold) {
  Hold* hold = Add(GrantOf(2, GrantAccess::kReadWrite), GrantAccess::kReadWrite);
  EXPECT_EQ(Add(GrantOf(2), GrantAccess::kReadOnly), hold);
  EXPECT_EQ(hold->handles, 2u);
  EXPECT_FALSE(table_.HandleGone(hold));
  EXPECT_TRUE(Taken(10).empty());
  EXPECT_TRUE(table_.HandleGone(hold));
  EXPECT_EQ(Taken(10).returned.size(), 1u);
}

TEST_F(HoldTableTest, AHoldOlderThanALiveForkIsPutOffUntilItsEnd) {
  Hold* hold = Add(GrantOf(3), GrantAccess::kReadOnly);
  Fork child(forks_);
  table_.HandleGone(hold);
  EXPECT_TRUE(Taken(10).empty());
  EXPECT_TRUE(table_.put_off());
  table_.LookAtForks();
  EXPECT_TRUE(Taken(10).empty());
  child.End();
  table_.LookAtForks();
  EXPECT_EQ(Taken(10).returned.size(), 1u);
  EXPECT_FALSE(table_.put_off());
}

TEST_F(HoldTableTest, AYoungerHoldDoesNotWaitForTheFork) {
  Fork child(forks_);
  Drop(Add(GrantOf(4), GrantAccess::kReadOnly));
  EXPECT_EQ(Taken(10).returned.size(), 1u);
}

TEST_F(HoldTableTest, AHoldDroppedBeforeTheForkDoesNotWaitForIt) {
  Drop(Add(GrantOf(13), GrantAccess::kReadOnly));
  Fork child(forks_);
  EXPECT_EQ(Taken(10).returned.size(), 1u);
}

// Case P7.
TEST_F(HoldTableTest, ALaterForkDoesNotKeepWhatWasPutOffForAnEarlierOne) {
  Hold* hold = Add(GrantOf(14), GrantAccess::kReadOnly);
  Fork first(forks_);
  table_.HandleGone(hold);
  EXPECT_TRUE(Taken(10).empty());
  Fork second(forks_);
  table_.LookAtForks();
  EXPECT_TRUE(Taken(10).empty());
  first.End();
  table_.LookAtForks();
  EXPECT_EQ(Taken(10).returned.size(), 1u);
}

// Case P7.
TEST_F(HoldTableTest, AnEarlierForksEndLeavesWhatALaterOneHasSeen) {
  Hold* hold = Add(GrantOf(15), GrantAccess::kReadOnly);
  Fork first(forks_);
  Fork second(forks_);
  table_.HandleGone(hold);
  EXPECT_TRUE(Taken(10).empty());
  first.End();
  table_.LookAtForks();
  EXPECT_TRUE(Taken(10).empty());
  second.End();
  table_.LookAtForks();
  EXPECT_EQ(Taken(10).returned.size(), 1u);
}

// Case P7. A thread that is about to take releases waits for the table's lock while another one forks.
TEST_F(HoldTableTest, ATakeUnderWaySeesAForkThatComesBetween) {
  Hold* hold = Add(GrantOf(16), GrantAccess::kReadOnly);
  std::atomic<bool> begun{false};
  std::atomic<bool> done{false};
  std::atomic<size_t> taken{0};
  std::unique_ptr<Fork> child;
  table_.Lock();
  std::thread taker([&] {
    while (!done) {
      begun = true;
      taken += Taken(10).returned.size();
    }
  });
  while (!begun) std::this_thread::yield();
  child = std::make_unique<Fork>(forks_);
  table_.Unlock();
  table_.HandleGone(hold);
  while (!table_.put_off() && taken == 0) std::this_thread::yield();
  done = true;
  taker.join();
  EXPECT_EQ(taken.load(), 0u);
}

TEST_F(HoldTableTest, AContradictionIsRefusedAndItsGrantGivenBack) {
  Add(GrantOf(5), GrantAccess::kReadOnly);
  Grant other = GrantOf(5);
  other.size_bytes = 64;
  EXPECT_EQ(table_.Add(session_, other, GrantAccess::kReadOnly).status().code(), StatusCode::kInternal);
  const Releases batch = Taken(10);
  ASSERT_EQ(batch.returned.size(), 1u);
  EXPECT_EQ(batch.returned[0].grants, 1u);
}

TEST_F(HoldTableTest, AnAbandonedCallIsSentOnce) {
  EXPECT_TRUE(table_.Abandon(9));
  EXPECT_FALSE(table_.Abandon(10));  // the thread is awake already
  EXPECT_EQ(Taken(10).abandoned_calls.size(), 2u);
  EXPECT_TRUE(Taken(10).empty());
  EXPECT_EQ(table_.pending_since(), TimePoint::max());
}

// Case P4.
TEST_F(HoldTableTest, ABatchGoesAgainUnchangedUntilItIsDelivered) {
  Drop(Add(GrantOf(20), GrantAccess::kReadOnly));
  const Releases first = table_.TakeRiders(10).releases;
  ASSERT_EQ(first.returned.size(), 1u);
  EXPECT_EQ(table_.pending_since(), TimePoint::max());
  EXPECT_TRUE(table_.NotAnswered(first.number));
  EXPECT_NE(table_.pending_since(), TimePoint::max());
  Drop(Add(GrantOf(20), GrantAccess::kReadOnly));  // the same Storage, opened and dropped meanwhile
  EXPECT_TRUE(table_.TakeRiders(10).empty());      // one at a time
  for (int i = 0; i < 3; ++i) {
    const Releases again = table_.Take(10).releases;
    EXPECT_EQ(again.number, first.number);
    ASSERT_EQ(again.returned.size(), 1u);
    EXPECT_EQ(again.returned[0].storage, first.returned[0].storage);
    EXPECT_FALSE(table_.NotAnswered(again.number));  // somebody is awake for the second release
  }
  table_.Delivered(first.number);
  EXPECT_EQ(Taken(10).number, first.number + 1);
  EXPECT_FALSE(table_.NotAnswered(first.number));  // a late word of the first call
  EXPECT_EQ(table_.pending_since(), TimePoint::max());
}

// Case P4.
TEST_F(HoldTableTest, WhatWaitsBehindABatchGoesAfterItUnderTheNextNumber) {
  Drop(Add(GrantOf(21), GrantAccess::kReadOnly));
  const Releases first = table_.Take(10).releases;
  Drop(Add(GrantOf(22), GrantAccess::kReadOnly));
  table_.Delivered(first.number);
  EXPECT_NE(table_.pending_since(), TimePoint::max());
  const Releases second = Taken(10);
  EXPECT_EQ(second.number, first.number + 1);
  ASSERT_EQ(second.returned.size(), 1u);
  EXPECT_EQ(second.returned[0].storage, (StorageId{7, 22}));
}

// Case P7. The batch is the parent's to send; the child's session counts from 1.
TEST_F(HoldTableTest, AForkedChildSendsNoBatchOfItsParents) {
  Drop(Add(GrantOf(23), GrantAccess::kReadOnly));
  Hold* kept = Add(GrantOf(24), GrantAccess::kReadOnly);
  EXPECT_EQ(table_.Take(10).releases.number, 1u);
  table_.Lock();
  table_.UnlockInChild();
  EXPECT_TRUE(table_.Take(10).empty());
  table_.Claimed({GrantOf(24)});
  Drop(kept);
  const Releases releases = table_.Take(10).releases;
  EXPECT_EQ(releases.number, 1u);
  ASSERT_EQ(releases.returned.size(), 1u);
  EXPECT_EQ(releases.returned[0].storage, (StorageId{7, 24}));
}

TEST_F(HoldTableTest, TakesNoMoreThanAsked) {
  for (uint64_t i = 0; i < 25; ++i) Drop(Add(GrantOf(100 + i), GrantAccess::kReadOnly));
  EXPECT_EQ(Taken(10).returned.size(), 10u);
  EXPECT_NE(table_.pending_since(), TimePoint::max());
  EXPECT_EQ(Taken(100).returned.size(), 15u);
  EXPECT_EQ(table_.pending_since(), TimePoint::max());
}

TEST_F(HoldTableTest, AfterTheSessionIsLostNothingIsSent) {
  Hold* kept = Add(GrantOf(6), GrantAccess::kReadOnly);
  Drop(Add(GrantOf(7), GrantAccess::kReadOnly));
  table_.SessionLost();
  EXPECT_TRUE(Taken(10).empty());
  EXPECT_FALSE(table_.HandleGone(kept));
  EXPECT_TRUE(Taken(10).empty());
}

// Case P4. The answer of a call that crossed the session's end.
TEST_F(HoldTableTest, AGrantThatComesAfterTheSessionIsLostIsKeptForItsHandleOnly) {
  table_.SessionLost();
  const Fd file(memfd_create("segment", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  Hold* late = Add(GrantOf(30), GrantAccess::kReadOnly);
  std::shared_ptr<Mapping> mapping =
      table_.AddMapping(late, GrantAccess::kReadOnly,
                        std::make_shared<Mapping>(*Mapping::Map(file, 0, 4096, Access::kReadOnly)));
  const std::weak_ptr<Mapping> watch = std::exchange(mapping, nullptr);
  EXPECT_FALSE(watch.expired());
  EXPECT_FALSE(table_.HandleGone(late));
  EXPECT_TRUE(watch.expired());
  EXPECT_FALSE(table_.Abandon(1));
  EXPECT_EQ(table_.pending_since(), TimePoint::max());
  EXPECT_TRUE(table_.Take(10).empty());
}

// What a fork's child does with it.
TEST_F(HoldTableTest, AChildInheritsWhatHasHandlesAndClaimsIt) {
  Hold* kept = Add(GrantOf(8), GrantAccess::kReadOnly);
  Hold* gone = Add(GrantOf(9), GrantAccess::kReadOnly);
  Hold* dropped = Add(GrantOf(10), GrantAccess::kReadOnly);
  Drop(Add(GrantOf(11), GrantAccess::kReadOnly));
  table_.Lock();
  table_.UnlockInChild();
  EXPECT_TRUE(Taken(10).empty());
  EXPECT_EQ(table_.Inherited().size(), 3u);
  EXPECT_FALSE(table_.HandleGone(dropped));  // needs no release
  table_.Claimed({GrantOf(8), GrantOf(10)});
  EXPECT_TRUE(table_.Inherited().empty());
  // What was dropped while the claim was under way goes back.
  const Releases surplus = Taken(10);
  ASSERT_EQ(surplus.returned.size(), 1u);
  EXPECT_EQ(surplus.returned[0].storage, (StorageId{7, 10}));
  EXPECT_TRUE(table_.HandleGone(kept));
  EXPECT_FALSE(table_.HandleGone(gone));
  EXPECT_EQ(Taken(10).returned.size(), 1u);
}

TEST_F(HoldTableTest, OneMappingServesAllOfASegmentAndEndsWithTheLastHold) {
  const Fd file(memfd_create("segment", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(file.get(), 4096), 0);
  Hold* hold = Add(GrantOf(12), GrantAccess::kReadOnly);
  EXPECT_EQ(table_.FindMapping(hold, GrantAccess::kReadOnly), nullptr);
  const auto map = [&] { return std::make_shared<Mapping>(*Mapping::Map(file, 0, 4096, Access::kReadOnly)); };
  std::shared_ptr<Mapping> first = table_.AddMapping(hold, GrantAccess::kReadOnly, map());
  EXPECT_EQ(table_.AddMapping(hold, GrantAccess::kReadOnly, map()), first);
  EXPECT_EQ(table_.FindMapping(hold, GrantAccess::kReadOnly), first);
  EXPECT_EQ(table_.FindMapping(hold, GrantAccess::kReadWrite), nullptr);
  const std::weak_ptr<Mapping> watch = std::exchange(first, nullptr);
  table_.HandleGone(hold);
  table_.Take(10);  // and the batch's end
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace tensorbroker::internal
