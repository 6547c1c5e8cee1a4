// Events: what happened, queued for each watcher, never waited for.
#ifndef TENSORBROKER_SERVER_EVENTS_H_
#define TENSORBROKER_SERVER_EVENTS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/server/limits.h"
#include "tensorbroker/server/uid_pool.h"

namespace tensorbroker {

// Thread-compatible: the Broker's lock guards it.
class Events {
 public:
  Events(const Limits& limits, uid_t broker_uid) : limits_(limits), pool_(limits.watchers, broker_uid) {}

  // True where nobody watches: then no event need be made.
  bool empty() const { return watchers_.empty(); }

  // `wake` is run (by who called Emit, once it holds no lock) when there is something to take for a watcher that had
  // nothing.
  // kResourceExhausted  as many watchers as the limit says, or as the uid's share of it
  Status Add(uint64_t watch, uid_t uid, std::string_view prefix, std::function<void()> wake);
  // Ends a watch: what is queued is dropped, and its wake is run once more.
  void Close(uint64_t watch, std::vector<std::function<void()>>& wakes);

  // Queues `event`, of a Storage, name or session of `owner`, for who may see it. Appends the wakes to run to `wakes`.
  // `names` are all of a Storage's: whoever watches a prefix sees the event under a name that begins so.
  void Emit(Event event, uid_t owner, std::vector<std::function<void()>>& wakes,
            const std::vector<std::string_view>& names = {});

  // At most `count` events, in order; kLagged stands where events were dropped because the queue was full. Empty: `wake`
  // will be run.
  std::vector<Event> Take(uint64_t watch, size_t count);
  size_t size() const { return watchers_.size(); }

 private:
  struct Watcher {
    uid_t uid = 0;
    std::string prefix;
    std::function<void()> wake;
    std::deque<std::shared_ptr<const Event>> queue;
    uint64_t lost = 0;               // after what is queued
    int64_t lost_since_unix_ns = 0;  // the first of them
    bool asleep = true;              // the last Take found nothing
  };

  const Limits& limits_;
  UidPool pool_;
  std::map<uint64_t, Watcher> watchers_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_EVENTS_H_
