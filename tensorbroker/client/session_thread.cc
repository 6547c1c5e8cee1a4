// The session's own thread: sends releases, reads notices, watches forked children, closes the session.
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>
#include <vector>

#include "tensorbroker/client/fork.h"
#include "tensorbroker/client/session.h"

namespace tensorbroker::internal {

namespace {

// Releases are to be sent within 5 ms; the rest is for the thread to wake up.
constexpr Duration kReleaseDelay = std::chrono::milliseconds(4);
constexpr size_t kMaxBatch = 10'000;
constexpr Duration kCloseDeadline = std::chrono::seconds(1);
constexpr Duration kChildInterval = std::chrono::seconds(1);

// poll(2) until `deadline`; interrupted is fine.
void PollUntil(std::vector<pollfd>& fds, TimePoint deadline) {
  timespec timeout{};
  if (deadline != TimePoint::max()) {
    const int64_t ns = std::max<int64_t>(0, Duration(deadline - Clock::Real().Now()).count());
    timeout = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
  }
  for (pollfd& fd : fds) fd.revents = 0;
  if (ppoll(fds.data(), fds.size(), deadline == TimePoint::max() ? nullptr : &timeout, nullptr) < 0) {
    for (pollfd& fd : fds) fd.revents = 0;
  }
}

}  // namespace

void Session::RunThread(std::shared_ptr<Session> session) {
  pthread_setname_np(pthread_self(), "tensorbroker");
  std::shared_ptr<Link> link;
  {
    MutexLock lock(session->mutex_);
    link = session->link_;
  }
  if (link == nullptr) return;
  while (session->ThreadStep(*link)) {
  }
  if (link->lease().broken()) {
    // Nothing can be told to anyone. The object serves its users on, as far as memory goes.
    session->holds_.SessionLost();
    MutexLock lock(session->mutex_);
    session->changed_.NotifyAll();
    return;
  }
  // Whoever forked knows the session by its token; nothing that a child needs is left in it.
  static_cast<void>(link->calls().CloseSession(DeadlineAfter(Clock::Real().Now(), kCloseDeadline)));
  MutexLock lock(session->mutex_);
  session->link_ = nullptr;
}

// Waits for something to do and does it. False: the session is lost, or has no user and no release left.
bool Session::ThreadStep(Link& link) {
  bool now = false;  // do not wait for more releases to gather
  bool closing = false;
  {
    MutexLock lock(mutex_);
    closing = closing_;
    now = closing || flush_wanted_ != flush_done_;
  }
  const TimePoint since = holds_.pending_since();
  if (closing && since == TimePoint::max() && !holds_.put_off()) return false;

  const std::vector<LiveFork> forks = Forks::Get().alive();
  std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0}, {link.lease().fd(), POLLIN, 0}};
  bool ask_again = false;  // of some child nobody tells us
  for (const LiveFork& fork : forks) {
    fds.push_back({fork.pipe->get(), POLLIN, 0});
    ask_again = ask_again || (!fork.pipe->valid() && fork.page->valid());
  }
  const bool wants_flush = now && !closing;
  TimePoint until =
      since == TimePoint::max() ? TimePoint::max() : since + (now ? Duration{0} : kReleaseDelay);
  if (wants_flush || link.lease().has_notices()) until = TimePoint{};
  if (ask_again) until = std::min(until, Clock::Real().Now() + kChildInterval);
  PollUntil(fds, until);

  if (fds[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof(count));
  }
  if (fds[1].revents != 0 || link.lease().has_notices()) {
    const LeaseNotices notices = link.lease().ReadNotices();
    for (const SegmentId segment : notices.retired) holds_.SegmentRetired(segment);
    now = now || notices.flush || notices.stopping;
  }
  if (link.lease().broken()) return false;
  // A child's end may have been noticed by another session's thread, or at a fork.
  Forks::Get().Reap();
  holds_.LookAtForks();
  const TimePoint due = holds_.pending_since();
  if (wants_flush || (due != TimePoint::max() && (now || Clock::Real().Now() >= due + kReleaseDelay))) {
    // At the end there is no second attempt: the session's end gives back what is left.
    if (!SendReleases(link) && closing && !holds_.put_off()) return false;
  }
  return true;
}

bool Session::SendReleases(Link& link) {
  uint64_t wanted = 0;
  {
    MutexLock lock(mutex_);
    wanted = flush_wanted_;
  }
  Status status;
  while (true) {
    ReleaseBatch batch = holds_.Take(kMaxBatch);
    batch.mappings.clear();  // unmap before the broker may give the bytes to others
    if (batch.empty()) break;
    // Without a deadline: there is nothing else to do until the broker answers or is gone.
    status = link.calls().Release(batch.releases, TimePoint::max());
    if (!status.ok()) {
      holds_.NotAnswered(batch.releases.number);
      break;
    }
    holds_.Delivered(batch.releases.number);
  }
  MutexLock lock(mutex_);
  flush_done_ = wanted;
  flush_status_ = status;
  changed_.NotifyAll();
  return status.ok();
}

Status Session::Flush(TimePoint deadline) {
  TB_ASSIGN_OR_RETURN(const std::shared_ptr<Link> link, GetLink(deadline));
  uint64_t wanted = 0;
  {
    MutexLock lock(mutex_);
    wanted = ++flush_wanted_;
  }
  Wake();
  MutexLock lock(mutex_);
  while (flush_done_ < wanted) {
    if (link_ != nullptr) TB_RETURN_IF_ERROR(link_->Check());
    if (!changed_.WaitUntil(mutex_, deadline)) {
      return DeadlineExceededError(
          fmt::format("Flush: no answer from the broker (pid {}) at {} in time; is it stopped?",
                      link->session().broker_pid, socket()));
    }
  }
  return flush_status_;
}

}  // namespace tensorbroker::internal
