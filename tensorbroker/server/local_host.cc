#include "tensorbroker/server/local_host.h"

#include <sys/epoll.h>

#include <utility>

#include "tensorbroker/base/log.h"

namespace tensorbroker {

void LocalHost::FinishWork() {
  reserve_.Finish();
  reclaim_.Finish();
}

void LocalHost::Clear() {
  for (const auto& [session, pidfd] : processes_) loop_->Remove(pidfd.get());
  processes_.clear();
}

void LocalHost::SessionOpened(uint64_t session, std::shared_ptr<const PeerIdentity> peer) {
  loop_->Post([this, session, peer = std::move(peer)] { Watch(session, *peer); });
}

void LocalHost::Watch(uint64_t session, const PeerIdentity& peer) {
  // A descriptor of its own: one process may have several sessions, one after the other, on one connection.
  StatusOr<Fd> pidfd = Dup(peer.pidfd.get());
  const Status added =
      !pidfd.ok() ? pidfd.status() : loop_->Add(pidfd->get(), EPOLLIN, [this, session](uint32_t) {
        const auto it = processes_.find(session);
        if (it == processes_.end()) return;
        loop_->Remove(it->second.get());
        processes_.erase(it);
        broker_->ProcessEnded(session);
      });
  if (added.ok()) {
    processes_.emplace(session, *std::move(pidfd));
  } else {
    Log(LogLevel::kWarning, "process_not_watched",
        {{"session", session},
         {"cause", Message(added)},
         {"remedy", "its lease's hang-up ends the session"}});
  }
}

void LocalHost::SessionEnded(uint64_t session) {
  loop_->Post([this, session] {
    if (const auto it = processes_.find(session); it != processes_.end()) {
      loop_->Remove(it->second.get());
      processes_.erase(it);
    }
    leases_->Close(session);
  });
}

void LocalHost::SegmentRetired(uint64_t session, SegmentId segment) {
  loop_->Post([this, session, segment] { leases_->SegmentRetired(session, segment); });
}

void LocalHost::FlushAll() {
  loop_->Post([this] { leases_->NotifyAll(LeaseType::kFlush); });
}

void LocalHost::WakeAt(TimePoint when) {
  loop_->Post([this, when] {
    if (timer_ != 0 && timer_at_ <= when) return;
    if (timer_ != 0) loop_->Cancel(timer_);
    timer_at_ = when;
    timer_ = loop_->RunAt(when, [this] {
      timer_ = 0;
      broker_->RunTimers();
    });
  });
}

}  // namespace tensorbroker
