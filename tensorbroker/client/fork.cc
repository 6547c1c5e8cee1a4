#include "tensorbroker/client/fork.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>

namespace tensorbroker::internal {

namespace {

ForkHooks g_hooks;

// Thread-safety analysis cannot follow locks that one handler takes and another gives back.
void Prepare() TB_NO_THREAD_SAFETY_ANALYSIS {
  CallGate::Get().Close();
  Forks::Get().Lock(g_hooks.lock());
}

void Parent() TB_NO_THREAD_SAFETY_ANALYSIS {
  Forks::Get().UnlockInParent();
  g_hooks.unlock_in_parent();
  CallGate::Get().Open();
}

void Child() TB_NO_THREAD_SAFETY_ANALYSIS {
  Forks::Get().UnlockInChild();
  g_hooks.unlock_in_child();
  CallGate::Get().ResetInChild();
}

void AtExit() { CallGate::Get().CloseForExit(); }

}  // namespace

void InstallHandlers(const ForkHooks& hooks) {
  static std::once_flag once;
  std::call_once(once, [&hooks] {
    g_hooks = hooks;
    CallGate::Get();
    Forks::Get();
    pthread_atfork(Prepare, Parent, Child);
    std::atexit(AtExit);
  });
}

CallGate& CallGate::Get() {
  static auto* gate = new CallGate;
  return *gate;
}

bool CallGate::Enter(Waker* waker) {
  MutexLock lock(mutex_);
  while (forking_) changed_.Wait(mutex_);
  if (exiting()) return false;
  waker->previous_ = nullptr;
  waker->next_ = inside_;
  if (inside_ != nullptr) inside_->previous_ = waker;
  inside_ = waker;
  return true;
}

void CallGate::Leave(Waker* waker) {
  MutexLock lock(mutex_);
  (waker->previous_ != nullptr ? waker->previous_->next_ : inside_) = waker->next_;
  if (waker->next_ != nullptr) waker->next_->previous_ = waker->previous_;
  if (inside_ == nullptr && (forking_ || exiting())) changed_.NotifyAll();
}

void CallGate::Close() {
  mutex_.Lock();
  while (forking_) changed_.Wait(mutex_);  // another thread forks
  forking_ = true;
  for (Waker* waker = inside_; waker != nullptr; waker = waker->next_) waker->Wake();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(1);
  while (inside_ != nullptr && changed_.WaitUntil(mutex_, deadline)) {
  }
}

void CallGate::Open() {
  forking_ = false;
  changed_.NotifyAll();
  mutex_.Unlock();
}

void CallGate::ResetInChild() {
  forking_ = false;
  inside_ = nullptr;
  new (&changed_) CondVar;  // those who waited on it are not in this process
  mutex_.Unlock();
}

void CallGate::CloseForExit() {
  MutexLock lock(mutex_);
  exiting_.store(true, std::memory_order_relaxed);
  for (Waker* waker = inside_; waker != nullptr; waker = waker->next_) waker->Wake();
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (inside_ != nullptr && changed_.WaitUntil(mutex_, deadline)) {
  }
}

Forks& Forks::Get() {
  static auto* forks = new Forks;
  return *forks;
}

std::vector<uint64_t> Forks::alive_numbers() {
  MutexLock lock(mutex_);
  std::vector<uint64_t> numbers;
  numbers.reserve(alive_.size());
  for (const LiveFork& fork : alive_) numbers.push_back(fork.number);
  return numbers;
}

std::vector<LiveFork> Forks::alive() {
  MutexLock lock(mutex_);
  return alive_;
}

size_t Forks::Reap() {
  MutexLock lock(mutex_);
  return ReapLocked();
}

size_t Forks::ReapLocked() {
  const auto ended = [](const LiveFork& fork) {
    pollfd wait{fork.pipe->get(), POLLIN, 0};
    return fork.pipe->valid() && poll(&wait, 1, 0) == 1;
  };
  const auto end = std::remove_if(alive_.begin(), alive_.end(), ended);
  const auto count = static_cast<size_t>(alive_.end() - end);
  alive_.erase(end, alive_.end());
  return count;
}

void Forks::Lock(bool watch) {
  mutex_.Lock();
  ReapLocked();  // so that many short-lived children do not pile up descriptors
  watch_ = watch;
  int ends[2];
  if (!watch || pipe2(ends, O_CLOEXEC) != 0) return;
  read_end_.reset(ends[0]);
  write_end_.reset(ends[1]);
}

void Forks::UnlockInParent() {
  if (watch_) {
    const uint64_t number = count_.load(std::memory_order_relaxed) + 1;
    count_.store(number, std::memory_order_release);
    alive_.push_back({number, std::make_shared<Fd>(std::move(read_end_))});
  }
  write_end_.reset();
  mutex_.Unlock();
}

void Forks::UnlockInChild() {
  // The parent's children are not this process's. A thread that polled a pipe is gone with its copy of the owner.
  for (LiveFork& fork : alive_) fork.pipe->reset();
  alive_.clear();
  read_end_.reset();
  // Stays open until this process ends or execs: that is what the parent waits for.
  [[maybe_unused]] const int kept = write_end_.release();
  mutex_.Unlock();
}

}  // namespace tensorbroker::internal
