#include "tensorbroker/client/fork.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

namespace tensorbroker::internal {

namespace {

ForkHooks g_hooks;

constexpr size_t kWitnessBytes = 1;  // one page, which nobody touches: no memory is behind it

Fd MakePage() {
  Fd page(memfd_create("tensorbroker-fork", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (page.valid() && ftruncate(page.get(), kWitnessBytes) != 0) page.reset();
  return page;
}

bool HasHungUp(const Fd& pipe) {
  pollfd wait{pipe.get(), POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

// The child has ended or exec'ed.
bool HasEnded(LiveFork& fork) {
  if (fork.pipe->valid()) {
    if (!HasHungUp(*fork.pipe)) return false;
    if (!fork.page->valid()) return true;
    // It would wake whoever polls it for ever. Others may be polling it just now: theirs, not ours, is the last reference.
    fork.pipe = std::make_shared<Fd>();
  }
  return fork.page->valid() && fcntl(fork.page->get(), F_ADD_SEALS, F_SEAL_WRITE) == 0;
}

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
  const auto end = std::remove_if(alive_.begin(), alive_.end(), HasEnded);
  const auto count = static_cast<size_t>(alive_.end() - end);
  alive_.erase(end, alive_.end());
  return count;
}

void Forks::KeepSpare() {
  MutexLock lock(mutex_);
  if (!spare_page_.valid()) spare_page_ = MakePage();
}

void Forks::DropSpare() {
  MutexLock lock(mutex_);
  spare_page_.reset();
}

void Forks::Lock(bool watch) {
  mutex_.Lock();
  ReapLocked();  // so that many short-lived children do not pile up descriptors
  watch_ = watch;
  if (!watch) return;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) == 0) {
    read_end_.reset(ends[0]);
    write_end_.reset(ends[1]);
  }
  page_ = spare_page_.valid() ? std::move(spare_page_) : MakePage();
  if (!page_.valid()) return;
  page_address_ = mmap(nullptr, kWitnessBytes, PROT_READ | PROT_WRITE, MAP_SHARED, page_.get(), 0);
  if (page_address_ != MAP_FAILED) return;
  page_address_ = nullptr;
  page_.reset();
}

void Forks::UnlockInParent() {
  if (page_address_ != nullptr) munmap(std::exchange(page_address_, nullptr), kWitnessBytes);
  if (watch_) {
    const uint64_t number = count_.load(std::memory_order_relaxed) + 1;
    count_.store(number, std::memory_order_release);
    alive_.push_back(
        {number, std::make_shared<Fd>(std::move(read_end_)), std::make_shared<Fd>(std::move(page_))});
    spare_page_ = MakePage();
  }
  write_end_.reset();
  mutex_.Unlock();
}

void Forks::UnlockInChild() {
  // The parent's children are not this process's. A thread that polled a pipe is gone with its copy of the owner.
  for (LiveFork& fork : alive_) {
    fork.pipe->reset();
    fork.page->reset();
  }
  alive_.clear();
  spare_page_.reset();
  read_end_.reset();
  page_.reset();
  // Both stay until this process ends or execs: that is what the parent waits for.
  page_address_ = nullptr;
  [[maybe_unused]] const int kept = write_end_.release();
  mutex_.Unlock();
}

}  // namespace tensorbroker::internal
