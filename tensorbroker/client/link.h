// One process's live connection to a broker: lease, calls, and the session they are bound to.
#ifndef TENSORBROKER_CLIENT_LINK_H_
#define TENSORBROKER_CLIENT_LINK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/connection.h"
#include "tensorbroker/client/lease_client.h"
#include "tensorbroker/client/locate.h"

namespace tensorbroker::internal {

// Belongs to the process that opened it: a forked child leaks it whole (its lease stays open, so that the broker sees
// the child's life) and opens another. Its end ends the session. Thread-safe.
class Link {
 public:
  // Connects the lease first: that tells "no socket" from "not allowed". Codes as Client::Connect.
  static StatusOr<std::shared_ptr<Link>> Open(const SocketCandidate& candidate, const std::string& label,
                                              TimePoint deadline);

  Connection& calls() { return *calls_; }
  LeaseClient& lease() { return *lease_; }
  const OpenedSession& session() const { return session_; }
  uint64_t NextCallId() { return next_call_id_.fetch_add(1, std::memory_order_relaxed); }
  int64_t wire_bytes() const { return calls_->wire_bytes() + lease_->wire_bytes(); }
  // OK while the lease stands; else kUnavailable with the reason.
  Status Check() const;

 private:
  Link() = default;
  std::string path_;
  std::unique_ptr<Connection> calls_;
  std::unique_ptr<LeaseClient> lease_;
  OpenedSession session_;
  std::atomic<uint64_t> next_call_id_{1};
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_LINK_H_
