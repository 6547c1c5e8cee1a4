// An epoll loop that one thread runs: descriptors, timers and posted work.
#ifndef TENSORBROKER_IPC_EVENT_LOOP_H_
#define TENSORBROKER_IPC_EVENT_LOOP_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

// Callbacks run on the thread in Run(), one at a time, and must not block. Add, Modify, Remove and timers
// belong to that thread (or to anyone before Run() starts and after it returned); Post and Stop are
// thread-safe. Owns no descriptor that is added: its owner removes it before closing it.
class EventLoop {
 public:
  using Callback = std::function<void(uint32_t events)>;
  using TimerId = uint64_t;  // never 0

  // kResourceExhausted  no descriptor left
  static StatusOr<std::unique_ptr<EventLoop>> Create();
  ~EventLoop();

  // `events` are EPOLLIN and so on, level-triggered.
  // kAlreadyExists      `fd` is added already
  // kInvalidArgument    `fd` is not open, or cannot be polled
  // kResourceExhausted  the user's limit on epoll watches
  Status Add(int fd, uint32_t events, Callback callback);
  // kNotFound  `fd` is not added
  Status Modify(int fd, uint32_t events);
  // From here on the callback is not run, not even for an event that was already taken; it is destroyed once
  // no call to it is on the stack. Nothing happens where `fd` is not added.
  void Remove(int fd);

  // Runs `task` soon on the loop's thread, in the order posted. False once the loop has stopped for good: the
  // task is dropped, and destroyed on the caller's thread. Thread-safe.
  bool Post(std::function<void()> task);

  // Runs `task` once, not before `when`.
  TimerId RunAt(TimePoint when, std::function<void()> task);
  TimerId RunAfter(Duration delay, std::function<void()> task);
  // False where it ran or was cancelled already.
  bool Cancel(TimerId timer);

  // Runs until Stop(); what was posted before Stop() is run first.
  void Run();
  // Thread-safe, at any time, also before Run().
  void Stop();

 private:
  struct Watch;
  EventLoop(Fd epoll, Fd wake);
  void RunPosted();
  void RunDueTimers();
  int NextTimeoutMs() const;

  Fd epoll_;
  Fd wake_;
  // An event carries a watch's serial, not its fd: one taken for a descriptor that was removed (and whose
  // number was given out again) finds nothing.
  std::unordered_map<uint64_t, std::shared_ptr<Watch>> watches_;
  std::unordered_map<int, uint64_t> serial_of_fd_;
  uint64_t next_serial_ = 1;
  std::map<std::pair<TimePoint, TimerId>, std::function<void()>> timers_;
  std::unordered_map<TimerId, TimePoint> timer_times_;
  TimerId next_timer_ = 1;

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ TB_GUARDED_BY(mutex_);
  bool stopping_ TB_GUARDED_BY(mutex_) = false;
  bool stopped_ TB_GUARDED_BY(mutex_) = false;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_EVENT_LOOP_H_
