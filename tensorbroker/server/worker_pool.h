// A few threads that may block, and a queue before them.
#ifndef TENSORBROKER_SERVER_WORKER_POOL_H_
#define TENSORBROKER_SERVER_WORKER_POOL_H_

#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "tensorbroker/base/mutex.h"

namespace tensorbroker {

// Thread-safe.
class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  // Runs what is queued, then joins.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs `task` on one of the threads, in the order given; on the caller's thread once Finish was called.
  void Run(std::function<void()> task);
  // Runs what is queued, then joins. Idempotent; not to be called from a task.
  void Finish();

 private:
  void Work();

  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> queue_ TB_GUARDED_BY(mutex_);
  bool finishing_ TB_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_WORKER_POOL_H_
