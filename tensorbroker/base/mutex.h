// std::mutex and its guard with Clang's thread-safety attributes (absl::Mutex gives false reports under
// TSan).
#ifndef TENSORBROKER_BASE_MUTEX_H_
#define TENSORBROKER_BASE_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define TB_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define TB_THREAD_ANNOTATION(x)
#endif

#define TB_GUARDED_BY(mutex) TB_THREAD_ANNOTATION(guarded_by(mutex))
#define TB_REQUIRES(...) TB_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define TB_EXCLUDES(...) TB_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define TB_ACQUIRE(...) TB_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TB_RELEASE(...) TB_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define TB_NO_THREAD_SAFETY_ANALYSIS TB_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace tensorbroker {

class TB_THREAD_ANNOTATION(capability("mutex")) Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() TB_ACQUIRE() { mutex_.lock(); }
  void Unlock() TB_RELEASE() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class TB_THREAD_ANNOTATION(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) TB_ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() TB_RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable for Mutex. Wakes may be spurious: wait in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) TB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when `deadline` passed.
  bool WaitUntil(Mutex& mutex, std::chrono::steady_clock::time_point deadline) TB_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // wait_until overflows in some libraries on time_point::max(); such a deadline is no deadline.
    const bool in_time = deadline == std::chrono::steady_clock::time_point::max()
                             ? (condition_.wait(lock), true)
                             : condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_MUTEX_H_
