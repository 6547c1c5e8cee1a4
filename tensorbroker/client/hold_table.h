// What this process holds, counted: grants, handles, mappings, and the releases that wait to be sent.
//
// No call is made here and nothing blocks: that is what lets a Tensor be dropped anywhere.
#ifndef TENSORBROKER_CLIENT_HOLD_TABLE_H_
#define TENSORBROKER_CLIENT_HOLD_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/fork.h"
#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/ipc/mapping.h"
#include "tensorbroker/proto/records.h"

namespace tensorbroker::internal {

// This process's one hold on a Storage. HoldTable's; guarded by its lock.
struct Hold {
  Grant grant;
  uint64_t grants = 0;     // got and not given back; 0 where it is inherited, or gone with its session
  uint64_t born = 0;       // Forks::count() at the first grant
  uint64_t dropped = 0;    // the same when the last handle ended: forks between the two have seen it
  uint32_t handles = 0;    // HeldStorages that live: at most one of each access
  bool queued = false;     // in pending_ or put_off_
  bool inherited = false;  // a parent process's; not claimed yet
  std::array<std::weak_ptr<HeldStorage>, 2> handle;  // by GrantAccess
  std::array<std::shared_ptr<Mapping>, 2> mapping;   // the same
};

// Releases on their way out.
struct ReleaseBatch {
  Releases releases;  // without a number where there are none
  // Unmapped when the batch is destroyed; before it is sent.
  std::vector<std::shared_ptr<Mapping>> mappings;

  bool empty() const { return releases.empty(); }
};

// Releases leave in numbered batches, one at a time: what is taken stays here until a call that carried it is answered,
// and goes again, unchanged and under its number, where that call ended otherwise. The broker takes each number once.
//
// Thread-safe. Calls no HeldStorage's destructor under its lock.
class HoldTable {
 public:
  // `forks` must outlive it.
  explicit HoldTable(Forks& forks = Forks::Get()) : forks_(forks) {}

  // Counts a grant in, and gives the handle for `access` (at most the grant's).
  // kInternal  the grant contradicts an earlier one of the same Storage; it is queued for release
  StatusOr<std::shared_ptr<HeldStorage>> Add(const std::shared_ptr<Session>& session, const Grant& grant,
                                             GrantAccess access);
  // A handle ended. True where whoever sends releases should be woken.
  bool HandleGone(Hold* hold);
  // Handles of either access, with all their copies.
  int64_t UseCount(const Hold* hold);

  // The mapping for `access`, where there is one; else null.
  std::shared_ptr<Mapping> FindMapping(Hold* hold, GrantAccess access);
  // Keeps `mapping` for all Storages of its Segment; gives the one to use, which may be another thread's.
  std::shared_ptr<Mapping> AddMapping(Hold* hold, GrantAccess access, std::shared_ptr<Mapping> mapping);
  // The Segment will not come again.
  void SegmentRetired(SegmentId segment);

  // A granting call whose answer is unknown. True as HandleGone.
  bool Abandon(uint64_t call_id);
  // The batch that is not delivered yet, again. Else up to `max` releases that may be sent; those of holds that a live
  // forked child has seen are put off. Their holds are gone from the table. The forks are looked at under the table's
  // lock, which a fork takes too: no release that is taken can belong to a hold that a child got meanwhile.
  ReleaseBatch Take(size_t max);
  // For a call that is made anyway: the same, but nothing where a batch is not delivered yet.
  ReleaseBatch TakeRiders(size_t max);
  // The broker has answered a call that carried the batch of this number.
  void Delivered(uint64_t number);
  // Such a call ended otherwise: whether the broker has the batch is not known. True as HandleGone.
  bool NotAnswered(uint64_t number);
  // What was put off, and no child that lives has seen, is queued again.
  void LookAtForks();
  // When the oldest release that waits was queued, or is to be sent again; TimePoint::max() where none does.
  TimePoint pending_since();
  bool put_off();
  // The session is over: nothing is sent any more, nor kept to be sent. What an answer that comes late still grants is
  // there for its handles alone.
  void SessionLost();

  // What a parent process held and this one still has handles on.
  std::vector<StorageId> Inherited();
  // What the claims of all of them gave. What is in none of the grants is gone.
  void Claimed(const std::vector<Grant>& grants);

  // The fork handlers'.
  void Lock() TB_ACQUIRE(mutex_) { mutex_.Lock(); }
  void Unlock() TB_RELEASE(mutex_) { mutex_.Unlock(); }  // in the parent
  void UnlockInChild() TB_RELEASE(mutex_);

 private:
  struct SegmentKey {
    SegmentId segment;
    GrantAccess access;
    friend bool operator==(const SegmentKey&, const SegmentKey&) = default;
  };
  struct SegmentKeyHash {
    size_t operator()(const SegmentKey& key) const {
      return std::hash<SegmentId>{}(key.segment) * 2 + static_cast<size_t>(key.access);
    }
  };

  bool Queue(StorageId id) TB_REQUIRES(mutex_);
  ReleaseBatch TakeLocked(size_t max) TB_REQUIRES(mutex_);
  void DropMappings(Hold& hold, std::vector<std::shared_ptr<Mapping>>* out) TB_REQUIRES(mutex_);

  Forks& forks_;
  Mutex mutex_;
  std::unordered_map<StorageId, Hold> holds_ TB_GUARDED_BY(mutex_);  // its nodes stay where they are
  std::unordered_map<SegmentKey, std::weak_ptr<Mapping>, SegmentKeyHash> mappings_ TB_GUARDED_BY(mutex_);
  std::vector<StorageId> pending_ TB_GUARDED_BY(mutex_);  // without handles when they were queued
  std::vector<StorageId> put_off_ TB_GUARDED_BY(mutex_);
  std::vector<uint64_t> put_off_for_
      TB_GUARDED_BY(mutex_);  // the children that lived when put_off_ was last looked at
  std::vector<Returned> surplus_ TB_GUARDED_BY(mutex_);  // grants that no hold took
  std::vector<uint64_t> abandoned_ TB_GUARDED_BY(mutex_);
  Releases undelivered_ TB_GUARDED_BY(mutex_);  // the batch that was taken last; number 0: the broker has it
  uint64_t last_number_ TB_GUARDED_BY(mutex_) = 0;
  bool lost_ TB_GUARDED_BY(mutex_) = false;  // SessionLost; a forked child has a session of its own
  TimePoint pending_since_ TB_GUARDED_BY(mutex_) = TimePoint::max();
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_HOLD_TABLE_H_
