// The process around the Broker: its event loop, its threads that may block, and the watch over its clients' processes.
#ifndef TENSORBROKER_SERVER_LOCAL_HOST_H_
#define TENSORBROKER_SERVER_LOCAL_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/ipc/event_loop.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/lease_server.h"
#include "tensorbroker/server/worker_pool.h"

namespace tensorbroker {

// Thread-safe, as BrokerHost says. `loop` outlives it. Attach comes before the loop runs; what is asked for when the loop has
// stopped is dropped, but for work that may block.
class LocalHost : public BrokerHost {
 public:
  explicit LocalHost(EventLoop* loop) : loop_(loop), reserve_(2), reclaim_(2) {}

  void Attach(Broker* broker, LeaseServer* leases) {
    broker_ = broker;
    leases_ = leases;
  }
  // Runs what is queued, then ends the threads; later work runs at its caller.
  void FinishWork();
  // Lets go of the clients' processes. On the loop's thread, or when it has stopped.
  void Clear();

  void SessionOpened(uint64_t session, std::shared_ptr<const PeerIdentity> peer) override;
  void SessionEnded(uint64_t session) override;
  void SegmentRetired(uint64_t session, SegmentId segment) override;
  void FlushAll() override;
  void Reserve(std::function<void()> task) override { reserve_.Run(std::move(task)); }
  void Reclaim(std::function<void()> task) override { reclaim_.Run(std::move(task)); }
  void WakeAt(TimePoint when) override;

 private:
  void Watch(uint64_t session, const PeerIdentity& peer);

  EventLoop* const loop_;
  Broker* broker_ = nullptr;
  LeaseServer* leases_ = nullptr;
  // The loop's thread's own.
  std::unordered_map<uint64_t, Fd> processes_;  // pidfds by session
  EventLoop::TimerId timer_ = 0;
  TimePoint timer_at_ = TimePoint::max();

  WorkerPool reserve_;
  WorkerPool reclaim_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_LOCAL_HOST_H_
