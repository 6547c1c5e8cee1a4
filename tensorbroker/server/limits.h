// What one broker admits, each with a number: docs/guide/protocol.md has the same table.
#ifndef TENSORBROKER_SERVER_LIMITS_H_
#define TENSORBROKER_SERVER_LIMITS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

#include "tensorbroker/base/clock.h"

namespace tensorbroker {

struct Limits {
  size_t sessions = 4096;
  size_t connections_per_uid = 8192;
  size_t pending_waits = 10'000;
  size_t watchers = 256;
  size_t events_per_watcher = 4096;
  size_t names_per_uid = 2'000'000;
  size_t storages_per_uid = 1'000'000;
  size_t names_per_storage = 4096;
  size_t transfers_per_session = 65'536;
  size_t remembered_calls = 1024;  // grants that a session's abandoned calls can still name
  size_t label_bytes = 64;
  Duration bind_within =
      std::chrono::seconds(5);  // a session without a lease, a connection without a session
  Duration transfer_ttl = std::chrono::minutes(10);
  Duration flush_grace = std::chrono::milliseconds(10);  // between asking for releases and refusing
};

// Items handled under one hold of the broker's lock, where a request or a list has many.
inline constexpr size_t kItemsPerLock = 1000;

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_LIMITS_H_
