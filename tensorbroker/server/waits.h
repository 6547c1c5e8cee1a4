// Calls that wait for a name. They hold no thread: each is an entry here and a function to be called once.
#ifndef TENSORBROKER_SERVER_WAITS_H_
#define TENSORBROKER_SERVER_WAITS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/server/limits.h"
#include "tensorbroker/server/uid_pool.h"

namespace tensorbroker {

// What an Open gives.
struct Opened {
  Grant grant;
  std::shared_ptr<const Header> header;  // null for an untyped Storage that was attached by id
  uint64_t version = 0;                  // of the name
};

using OpenedFn = std::function<void(StatusOr<Opened>)>;

struct Waiter {
  uint64_t id = 0;
  uint64_t session = 0;
  uid_t uid = 0;  // the session's
  uint64_t call_id = 0;
  std::string name;
  GrantAccess access = GrantAccess::kReadOnly;
  TimePoint since;
  TimePoint deadline = TimePoint::max();
  OpenedFn done;  // called once, by who takes the waiter out, without the lock
};

// Thread-compatible: the Broker's lock guards it.
class Waits {
 public:
  Waits(const Limits& limits, uid_t broker_uid) : pool_(limits.pending_waits, broker_uid) {}

  // kResourceExhausted  as many waits as the limit says, or as the uid's share of it
  Status Add(Waiter waiter);
  std::optional<Waiter> Take(uint64_t id);
  // Ids of those who wait for `name`, oldest first.
  std::vector<uint64_t> Of(std::string_view name) const;
  const Waiter* Find(uint64_t id) const;
  // A waiter that is due at `now`, taken out.
  std::optional<Waiter> TakeDue(TimePoint now);
  TimePoint next_due() const { return due_.empty() ? TimePoint::max() : due_.begin()->first; }
  // Any waiter, taken out: at the broker's end.
  std::optional<Waiter> TakeAny();
  size_t size() const { return waiters_.size(); }

 private:
  UidPool pool_;
  std::map<uint64_t, Waiter> waiters_;
  std::set<std::pair<std::string_view, uint64_t>> by_name_;  // views of the waiters' own
  std::set<std::pair<TimePoint, uint64_t>> due_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_WAITS_H_
