#include "tensorbroker/server/worker_pool.h"

#include <utility>

namespace tensorbroker {

WorkerPool::WorkerPool(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

WorkerPool::~WorkerPool() { Finish(); }

void WorkerPool::Run(std::function<void()> task) {
  {
    MutexLock lock(mutex_);
    if (!finishing_) {
      queue_.push_back(std::move(task));
      wake_.NotifyOne();
      return;
    }
  }
  task();
}

void WorkerPool::Finish() {
  {
    MutexLock lock(mutex_);
    finishing_ = true;
    wake_.NotifyAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void WorkerPool::Work() {
  for (;;) {
    std::function<void()> task;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !finishing_) wake_.Wait(mutex_);
      if (queue_.empty()) return;
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
}

}  // namespace tensorbroker
