// Sessions: one client process each, known by the kernel's word and a secret token.
#ifndef TENSORBROKER_SERVER_SESSIONS_H_
#define TENSORBROKER_SERVER_SESSIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/peer.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/server/call_log.h"
#include "tensorbroker/server/limits.h"
#include "tensorbroker/server/uid_pool.h"

namespace tensorbroker {

// A connection as the broker sees it: whose it is, and the session that it was last found to belong to.
struct Connection {
  explicit Connection(std::shared_ptr<const PeerIdentity> peer) : peer(std::move(peer)) {}

  const std::shared_ptr<const PeerIdentity> peer;
  std::atomic<uint64_t> session{0};  // serial; 0: none yet
};

// A session's reference to a Storage: the grants that its replies gave, less those given back.
struct Hold {
  uint64_t grants = 0;
  int64_t since_unix_ns = 0;
  GrantAccess access = GrantAccess::kReadOnly;
  bool quarantined = false;  // the process is dead; a child of it may still touch the bytes
};

struct Session {
  enum class State : uint8_t {
    kUnbound,      // no lease yet
    kBound,        // alive
    kQuarantined,  // the process is dead, its lease is open in a child of it
  };

  Session(SessionId id, std::shared_ptr<const PeerIdentity> peer, size_t remembered_calls)
      : id(id), peer(std::move(peer)), calls(remembered_calls) {}

  bool quarantined() const { return state == State::kQuarantined; }
  // It may ask for something.
  bool alive() const { return !quarantined() && !ending; }

  const SessionId id;
  const std::shared_ptr<const PeerIdentity> peer;
  Token token;
  Token lease_token;
  TimePoint bind_by;
  State state = State::kUnbound;
  bool ending = false;  // its holds are being taken back, some at a time
  std::string label;
  int64_t since_unix_ns = 0;
  CallLog calls;
  uint64_t releases_taken = 0;               // the number of the last batch
  std::unordered_map<uint64_t, Hold> holds;  // by the Storage's serial
  int64_t held_bytes = 0;
  std::unordered_set<uint64_t> fetched;  // Segments whose descriptors it has got
  std::unordered_set<uint64_t> waits;    // calls that wait
  std::unordered_set<uint64_t> watches;
  uint32_t transfers = 0;  // transfer holds that it made and nobody took
};

// The table of sessions. Owns them; pointers are good until Erase. Thread-compatible: the Broker's lock guards it.
class Sessions {
 public:
  using SameProcessFn = std::function<bool(const PeerIdentity&, const PeerIdentity&)>;

  Sessions(uint64_t epoch, const Limits& limits, uid_t broker_uid, SameProcessFn same_process);

  // A session of `connection`'s process, which is admitted already. Its lease is to be bound by now + bind_within.
  // kInvalidArgument    a label that is too long or holds control characters
  // kResourceExhausted  as many sessions as the limit says, or as the uid's share of it
  StatusOr<Session*> Open(Connection& connection, std::string_view label, TimePoint now, int64_t unix_ns);

  // The session that `token` names, for a request that came on `connection`.
  // kUnauthenticated  no such session, or it is of another process than the connection
  StatusOr<Session*> Authenticate(Connection& connection, std::string_view token) const;

  // The session that a lease's peer binds with the one-time token, now bound.
  // kUnauthenticated  unknown, used or late token, or another process's
  StatusOr<Session*> BindLease(std::string_view lease_token, const PeerIdentity& peer, TimePoint now);

  // The parent of a forked child, by its token, which may be quarantined.
  // kUnauthenticated  no such session, or of another uid
  StatusOr<Session*> FindParent(std::string_view token, uid_t uid) const;

  Session* Find(uint64_t serial);
  // The first session with a serial over `serial`; null at the end.
  Session* After(uint64_t serial);
  void Erase(uint64_t serial);
  size_t size() const { return sessions_.size(); }

 private:
  Session* ByToken(std::string_view token) const;

  const uint64_t epoch_;
  const Limits& limits_;
  const SameProcessFn same_process_;
  UidPool pool_;
  uint64_t next_serial_ = 1;
  std::map<uint64_t, Session> sessions_;
  // By a secret's first 8 bytes; the whole of it is compared in constant time.
  std::unordered_map<uint64_t, Session*> by_token_;
  std::unordered_map<uint64_t, Session*> by_lease_token_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_SESSIONS_H_
