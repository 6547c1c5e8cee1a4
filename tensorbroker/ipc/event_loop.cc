#include "tensorbroker/ipc/event_loop.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

namespace tensorbroker {
namespace {

constexpr uint64_t kWakeSerial = 0;

}  // namespace

struct EventLoop::Watch {
  int fd;
  Callback callback;
};

EventLoop::EventLoop(Fd epoll, Fd wake) : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

EventLoop::~EventLoop() = default;

StatusOr<std::unique_ptr<EventLoop>> EventLoop::Create() {
  Fd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoStatus(errno, "make an epoll descriptor");
  Fd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return ErrnoStatus(errno, "make an eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = kWakeSerial;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) < 0)
    return ErrnoStatus(errno, "watch an eventfd");
  return std::unique_ptr<EventLoop>(new EventLoop(std::move(epoll), std::move(wake)));
}

Status EventLoop::Add(int fd, uint32_t events, Callback callback) {
  if (serial_of_fd_.contains(fd)) return AlreadyExistsError("watch a descriptor: it is watched already");
  const uint64_t serial = next_serial_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = serial;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) < 0) {
    const int err = errno;
    const Status status = ErrnoStatus(err, "watch a descriptor");
    return err == EBADF || err == EPERM ? InvalidArgumentError(Message(status)) : status;
  }
  serial_of_fd_[fd] = serial;
  watches_[serial] = std::make_shared<Watch>(Watch{fd, std::move(callback)});
  return OkStatus();
}

Status EventLoop::Modify(int fd, uint32_t events) {
  const auto found = serial_of_fd_.find(fd);
  if (found == serial_of_fd_.end()) return NotFoundError("watch a descriptor: it is not watched");
  epoll_event event{};
  event.events = events;
  event.data.u64 = found->second;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) < 0) return ErrnoStatus(errno, "watch a descriptor");
  return OkStatus();
}

void EventLoop::Remove(int fd) {
  const auto found = serial_of_fd_.find(fd);
  if (found == serial_of_fd_.end()) return;
  (void)epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
  const auto watch = watches_.find(found->second);
  // The callback may own this very object's caller: it dies last, with the tables in order.
  const std::shared_ptr<Watch> last = std::move(watch->second);
  watches_.erase(watch);
  serial_of_fd_.erase(found);
}

bool EventLoop::Post(std::function<void()> task) {
  {
    const MutexLock lock(mutex_);
    if (stopped_) return false;
    posted_.push_back(std::move(task));
    if (posted_.size() > 1) return true;  // the first one woke the loop
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));  // a full counter is a wake too
  return true;
}

EventLoop::TimerId EventLoop::RunAt(TimePoint when, std::function<void()> task) {
  const TimerId id = next_timer_++;
  timers_.emplace(std::pair(when, id), std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

EventLoop::TimerId EventLoop::RunAfter(Duration delay, std::function<void()> task) {
  return RunAt(DeadlineAfter(Clock::Real().Now(), delay), std::move(task));
}

bool EventLoop::Cancel(TimerId timer) {
  const auto found = timer_times_.find(timer);
  if (found == timer_times_.end()) return false;
  const auto entry = timers_.find(std::pair(found->second, timer));
  timer_times_.erase(found);
  const std::function<void()> last = std::move(entry->second);
  timers_.erase(entry);
  return true;
}

void EventLoop::Run() {
  std::array<epoll_event, 64> events;
  while (true) {
    {
      const MutexLock lock(mutex_);
      if (stopping_ && posted_.empty()) {
        stopped_ = true;
        break;
      }
    }
    const int count =
        epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), NextTimeoutMs());
    for (int i = 0; i < count; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      if (event.data.u64 == kWakeSerial) {
        uint64_t drained;
        (void)!read(wake_.get(), &drained, sizeof(drained));
        continue;
      }
      const auto found = watches_.find(event.data.u64);
      if (found == watches_.end()) continue;               // removed by an earlier callback of this round
      const std::shared_ptr<Watch> watch = found->second;  // lives through its own removal
      watch->callback(event.events);
    }
    RunDueTimers();
    RunPosted();
  }
}

void EventLoop::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  const uint64_t one = 1;
  (void)!write(wake_.get(), &one, sizeof(one));
}

void EventLoop::RunPosted() {
  std::vector<std::function<void()>> tasks;
  {
    const MutexLock lock(mutex_);
    tasks.swap(posted_);
  }
  for (std::function<void()>& task : tasks) {
    task();
    task = nullptr;  // what it holds goes before the next one runs
  }
}

void EventLoop::RunDueTimers() {
  const TimePoint now = Clock::Real().Now();
  while (!timers_.empty() && timers_.begin()->first.first <= now) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

int EventLoop::NextTimeoutMs() const {
  if (timers_.empty()) return -1;
  const TimePoint when = timers_.begin()->first.first;
  const TimePoint now = Clock::Real().Now();
  if (when <= now) return 0;
  const int64_t ms = std::chrono::duration_cast<std::chrono::milliseconds>(when - now).count() + 1;
  return static_cast<int>(std::min<int64_t>(ms, 60 * 1000));
}

}  // namespace tensorbroker
