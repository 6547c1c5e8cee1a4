// The Broker: every rule of the control plane under one lock. No socket, no gRPC, no thread of its own.
//
// The invariant: a Storage is in the table exactly while a hold, a name or a transfer hold keeps it; its bytes go back to
// the allocator afterwards, never under the lock.
#ifndef TENSORBROKER_SERVER_BROKER_H_
#define TENSORBROKER_SERVER_BROKER_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/lease.h"
#include "tensorbroker/ipc/peer.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/server/access.h"
#include "tensorbroker/server/calls.h"
#include "tensorbroker/server/catalog.h"
#include "tensorbroker/server/events.h"
#include "tensorbroker/server/limits.h"
#include "tensorbroker/server/sessions.h"
#include "tensorbroker/server/storages.h"
#include "tensorbroker/server/transfers.h"
#include "tensorbroker/server/waits.h"
#include "tensorbroker/storage/allocator.h"
#include "tensorbroker/storage/capacity.h"

namespace tensorbroker {

// What the Broker needs of the process around it. Thread-safe; called without the Broker's lock.
class BrokerHost {
 public:
  virtual ~BrokerHost() = default;
  // A session has begun: ProcessEnded is to be called when its process ends.
  virtual void SessionOpened(uint64_t session, std::shared_ptr<const PeerIdentity> peer) = 0;
  // Nothing of the session is left: its lease may be closed.
  virtual void SessionEnded(uint64_t session) = 0;
  // Notices on leases: kSegmentRetired to one; kFlush to all.
  virtual void SegmentRetired(uint64_t session, SegmentId segment) = 0;
  virtual void FlushAll() = 0;
  // Runs `task` on a thread that may block: memory is reserved there, and given back there (two queues: giving back never
  // waits for a reservation).
  virtual void Reserve(std::function<void()> task) = 0;
  virtual void Reclaim(std::function<void()> task) = 0;
  // RunTimers is to be called at `when`.
  virtual void WakeAt(TimePoint when) = 0;
};

struct BrokerOptions {
  uint64_t epoch = 0;
  Limits limits;
  AdmissionRule admission;
  BrokerInfo facts;  // what does not change while the broker runs; Info fills in the rest
  std::function<void(BrokerInfo&)>
      look;                   // adds what the machine says now; called without the lock; may be empty
  std::string shortage_hint;  // what to do where memory is short: ends the message
  Sessions::SameProcessFn same_process = SameProcess;
};

// Every call that begins with a Connection and a token gives, besides the codes it lists:
// kUnauthenticated  the token is unknown, or of another process than the connection
// kUnavailable      the broker is about to end
// None gives kCancelled while its caller is there: gRPC reads that as a broken connection.
// Messages name the call, and neither paths nor tokens. None blocks but where it says so. Thread-safe.
class Broker {
 public:
  // All outlive the Broker; `allocator`'s on_retire is to call SegmentRetired.
  Broker(BrokerOptions options, BlockAllocator* allocator, Budget* budget, BrokerHost* host,
         const Clock& clock = Clock::Real());

  // ---- sessions
  // kPermissionDenied   the uid is not admitted
  // kFailedPrecondition a protocol version that this broker does not speak
  // kInvalidArgument    a bad label
  // kResourceExhausted  too many sessions
  StatusOr<OpenedSession> OpenSession(Connection& connection, uint32_t protocol_version,
                                      std::string_view client_version, std::string_view label);
  Status CloseSession(Connection& connection, std::string_view token);
  // On the lease. Gives the session's serial.
  // kUnauthenticated  unknown, used or late token, or another process's
  StatusOr<uint64_t> BindLease(std::string_view lease_token, const PeerIdentity& peer);
  // The Segment that a bound session may map. Codes as Storages::SegmentFor.
  StatusOr<std::shared_ptr<Segment>> FetchSegment(uint64_t session, SegmentId id, GrantAccess access);
  void LeaseClosed(uint64_t session);
  void ProcessEnded(uint64_t session);

  // ---- holds
  // Calls `done` once, maybe before it returns, maybe on a thread of the host's. `gone` may be set at any time: the caller
  // has left, and what was reserved is given back.
  // kInvalidArgument    a negative size
  // kOutOfRange         the header reaches outside
  // kResourceExhausted  memory or the uid's Storages: asked, free, top holders. Releases were asked for before.
  // kUnimplemented      no such device here: the reason
  // kAborted            the call was abandoned, or its caller is gone
  void Create(Connection& connection, CreateCall call, std::shared_ptr<std::atomic<bool>> gone,
              CreatedFn done);
  // kNotFound  no such name, or not this uid's
  StatusOr<Opened> Open(Connection& connection, const OpenCall& call);
  // As Open once the name is there. Calls `done` once, maybe before it returns. `wait` (from NewCall) names the call for
  // CancelWait.
  // kDeadlineExceeded   it was not published within `timeout`
  // kResourceExhausted  too many calls wait
  void AwaitOpen(Connection& connection, const OpenCall& call, Duration timeout, uint64_t wait,
                 OpenedFn done);
  void CancelWait(uint64_t wait);
  // kNotFound  no such Storage, deleted, or not this uid's
  StatusOr<Opened> Attach(Connection& connection, const AttachCall& call);
  // Gives a grant for each Storage that the parent holds; the rest is gone.
  // kUnauthenticated  no such parent of this uid
  StatusOr<std::vector<Grant>> ClaimInherited(Connection& connection, std::string_view token,
                                              std::string_view parent_token,
                                              const std::vector<StorageId>& storages);
  // Unknown Storages and surplus grants are ignored; so is a numbered batch that was taken before.
  Status Release(Connection& connection, std::string_view token, const Releases& releases);

  // ---- handles under way
  // kNotFound            not held by the session, or deleted
  // kPermissionDenied    asked read-write, held read-only
  // kResourceExhausted   too many of this session's are under way
  StatusOr<std::string> Export(Connection& connection, const ExportCall& call);
  // kNotFound  consumed, expired, or no handle of this broker
  StatusOr<Opened> Import(Connection& connection, const ImportCall& call);

  // ---- names. Codes as Catalog's.
  // kNotFound         the session does not hold the Storage, or it was deleted
  // kOutOfRange       the header reaches outside
  // kInvalidArgument  a bad name or time limit
  StatusOr<uint64_t> Publish(Connection& connection, const PublishCall& call);
  Status Unpublish(Connection& connection, std::string_view token, std::string_view name);
  Status Rename(Connection& connection, std::string_view token, std::string_view from, std::string_view to,
                bool replace);
  // Gives the number of holders.
  StatusOr<uint32_t> Delete(Connection& connection, std::string_view token, StorageId storage);

  // ---- operators. Asks the kernel for command lines and NUMA nodes, without the lock.
  // The next page of Storages after `cursor` (0 at first), which moves; `*end` says that there is no more. A page may be
  // empty before the end.
  StatusOr<std::vector<StorageRecord>> ListPage(Connection& connection, const ListCall& call,
                                                uint64_t* cursor, bool* end);
  StatusOr<std::vector<SessionRecord>> ListSessionsPage(Connection& connection, std::string_view token,
                                                        bool held, uint64_t* cursor, bool* end);
  StatusOr<StorageRecord> StatName(Connection& connection, std::string_view token, std::string_view name);
  StatusOr<StorageRecord> StatStorage(Connection& connection, std::string_view token, StorageId storage);
  StatusOr<BrokerInfo> Info(Connection& connection, std::string_view token);
  // `wake` is called, on any thread, when TakeEvents has something to give that had nothing.
  Status Watch(Connection& connection, std::string_view token, std::string_view prefix, uint64_t watch,
               std::function<void()> wake);
  // kUnauthenticated  the session has ended
  StatusOr<std::vector<Event>> TakeEvents(uint64_t watch, size_t count);
  void StopWatch(uint64_t watch);
  // kPermissionDenied  the caller is neither the broker's uid nor root
  Status CheckMayStop(Connection& connection, std::string_view token);

  // ---- for the process around it
  uint64_t NewCall() { return next_call_.fetch_add(1, std::memory_order_relaxed); }
  void RunTimers();
  // A Segment's memory goes: the sessions that fetched it are told.
  void SegmentRetired(SegmentId segment);
  // From here on all calls are refused, and those that wait are over.
  void BeginStop();
  // Ends what is left; after it the allocator may go. The host runs nothing any more.
  void Clear();
  const Limits& limits() const { return options_.limits; }
  // Counts for the log.
  size_t storages() const;
  size_t sessions() const;

 private:
  class After;  // what is to be done once the lock is free
  struct PendingCreate;

  StatusOr<Session*> Authenticate(std::string_view call, Connection& connection, std::string_view token)
      TB_REQUIRES(mutex_);
  StorageEntry* Visible(StorageId id, uid_t uid) TB_REQUIRES(mutex_);
  void Arm(TimePoint when, After& after) TB_REQUIRES(mutex_);
  void EmitStorage(EventKind kind, const StorageEntry& entry, const Session* session, After& after)
      TB_REQUIRES(mutex_);
  void EmitName(EventKind kind, std::string_view name, std::string_view new_name, const Binding& binding,
                const Session* session, After& after) TB_REQUIRES(mutex_);
  void EmitSession(EventKind kind, const Session& session, After& after) TB_REQUIRES(mutex_);

  void FreeIfUnused(StorageEntry& entry, After& after) TB_REQUIRES(mutex_);
  Grant GrantOf(const StorageEntry& entry, GrantAccess access) const;
  Opened GrantTo(Session& session, StorageEntry& entry, uint64_t call_id, CallAnswer answer, After& after)
      TB_REQUIRES(mutex_);
  StatusOr<Opened> Again(std::string_view call, Session& session, const CallAnswer& answer)
      TB_REQUIRES(mutex_);
  void TakeBack(Session& session, uint64_t storage, uint64_t grants, After& after) TB_REQUIRES(mutex_);
  void TakeBackItem(Session& session, const Releases& releases, size_t item, After& after)
      TB_REQUIRES(mutex_);

  void Allocate(std::shared_ptr<PendingCreate> create);
  void FinishCreate(PendingCreate& create, StatusOr<Block> block);
  Status Shortage(const PendingCreate& create, const Status& cause) TB_REQUIRES(mutex_);

  void RemoveName(std::string_view name, const Session* session, After& after) TB_REQUIRES(mutex_);
  void BindName(const std::string& name, Binding binding, StorageEntry& entry, const Session* session,
                EventKind kind, std::string_view from, After& after) TB_REQUIRES(mutex_);
  void WakeWaiters(std::string_view name, After& after) TB_REQUIRES(mutex_);
  // Gives the handle back what an Import took of it whose answer nobody got.
  void RestoreTransfer(const Session& importer, const CallAnswer& answer, After& after) TB_REQUIRES(mutex_);
  // Drops the transfer hold of an Export whose answer nobody got, where nobody has imported it.
  void DropTransfer(const CallAnswer& answer, After& after) TB_REQUIRES(mutex_);
  void DropTransfers(StorageEntry& entry, size_t count) TB_REQUIRES(mutex_);

  void EndSession(uint64_t session, std::string_view why);
  void Quarantine(uint64_t session);
  void EndCalls(Session& session, After& after) TB_REQUIRES(mutex_);
  void RemoveNamesOf(uint64_t session);

  StorageRecord Record(const StorageEntry& entry, uid_t uid, bool holders) TB_REQUIRES(mutex_);
  // A record, and the Segment that its bytes lie in (none where there are none).
  struct Looked {
    StorageRecord record;
    std::shared_ptr<Segment> segment;
  };
  Looked Look(const StorageEntry& entry, uid_t uid) TB_REQUIRES(mutex_);
  // Adds what is asked of the kernel, without the lock.
  static StatusOr<StorageRecord> WithKernelsWord(StatusOr<Looked> looked);

  const BrokerOptions options_;
  BlockAllocator* const allocator_;
  Budget* const budget_;
  BrokerHost* const host_;
  const Clock& clock_;
  std::atomic<uint64_t> next_call_{1};

  mutable Mutex mutex_;
  bool stopping_ TB_GUARDED_BY(mutex_) = false;
  uint64_t next_storage_ TB_GUARDED_BY(mutex_) = 1;
  Sessions sessions_ TB_GUARDED_BY(mutex_);
  Storages storages_ TB_GUARDED_BY(mutex_);
  Catalog catalog_ TB_GUARDED_BY(mutex_);
  Transfers transfers_ TB_GUARDED_BY(mutex_);
  Waits waits_ TB_GUARDED_BY(mutex_);
  Events events_ TB_GUARDED_BY(mutex_);
  std::unordered_map<uint64_t, std::vector<uint64_t>> fetched_
      TB_GUARDED_BY(mutex_);  // Segment -> sessions, sorted
  std::unordered_map<uint64_t, uint64_t> watch_sessions_ TB_GUARDED_BY(mutex_);
  std::deque<std::pair<TimePoint, uint64_t>> to_bind_
      TB_GUARDED_BY(mutex_);  // sessions without a lease, oldest first
  std::multimap<TimePoint, std::function<void()>> retries_
      TB_GUARDED_BY(mutex_);  // creates that wait for releases
  TimePoint armed_ TB_GUARDED_BY(mutex_) = TimePoint::max();
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_BROKER_H_
