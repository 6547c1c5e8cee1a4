// The broker's end of all leases: binds them, hands out Segments' descriptors, sends notices.
#ifndef TENSORBROKER_SERVER_LEASE_SERVER_H_
#define TENSORBROKER_SERVER_LEASE_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/ipc/event_loop.h"
#include "tensorbroker/ipc/lease.h"
#include "tensorbroker/ipc/peer.h"
#include "tensorbroker/server/broker.h"

namespace tensorbroker {

// Never waits for a client: one answer stands in line while a client does not read, and no request is taken before it is
// gone, nor while one with a descriptor is unread: the kernel counts descriptors on their way against the broker's uid, so
// a client that does not read could use up what all others need. Notices are kept as a set (at most the Segments that the
// client fetched, and two more). All of it belongs to the loop's thread.
class LeaseServer {
 public:
  // Both outlive it.
  LeaseServer(EventLoop* loop, Broker* broker, Duration bind_within)
      : loop_(loop), broker_(broker), bind_within_(bind_within) {}
  ~LeaseServer();

  // A connection whose first byte is a lease's. It is closed where it is not bound in time.
  void Accept(Fd socket, PeerIdentity peer);

  void SegmentRetired(uint64_t session, SegmentId segment);
  // To all that are bound: kFlush, kStopping.
  void NotifyAll(LeaseType notice);
  // The broker has ended the session.
  void Close(uint64_t session);
  size_t CountOf(uid_t uid) const;
  void Clear();

 private:
  struct Lease;
  using LeasePtr = std::shared_ptr<Lease>;

  void OnEvents(const LeasePtr& lease, uint32_t events);
  bool Read(const LeasePtr& lease);
  // Answers requests and sends notices as far as the client reads. False where the lease is over.
  bool Pump(const LeasePtr& lease);
  bool Write(Lease& lease);
  bool Answer(const LeasePtr& lease, const LeaseFrame& request);
  bool NextNotice(Lease& lease);
  // Closes it; where it was bound, the session ends.
  void End(const LeasePtr& lease);
  void Forget(const LeasePtr& lease);

  EventLoop* const loop_;
  Broker* const broker_;
  const Duration bind_within_;
  std::unordered_map<int, LeasePtr> leases_;           // by descriptor
  std::unordered_map<uint64_t, LeasePtr> by_session_;  // bound ones
  std::unordered_map<uid_t, size_t> counts_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_LEASE_SERVER_H_
