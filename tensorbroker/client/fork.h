// What fork(2) asks of this library: no thread of ours inside gRPC at that instant, all of our locks taken, and the
// count of children that may still see what this process had mapped. docs/guide/protocol.md, "fork".
//
// Note [Locks at a fork] Order: CallGate, the registry of sessions, each session, its hold table, Forks. Prepare takes
// them in this order; nobody makes a call or waits while holding one of them.
#ifndef TENSORBROKER_CLIENT_FORK_H_
#define TENSORBROKER_CLIENT_FORK_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/mutex.h"

namespace tensorbroker::internal {

// The threads of this library that are inside gRPC. A lock of gRPC's that one of them held at a fork would stay locked
// in the child for ever; so a fork first calls them out. Process-wide, never destroyed. Thread-safe.
class CallGate {
 public:
  // A call under way, linked into the gate while its thread is inside.
  class Waker {
   public:
    virtual ~Waker() = default;
    // Makes the call's thread come back from gRPC soon: it then leaves the gate, and enters it again. Run under the gate's
    // lock, by the thread that forks or exits.
    virtual void Wake() = 0;

   private:
    friend class CallGate;
    Waker* next_ = nullptr;
    Waker* previous_ = nullptr;
  };

  static CallGate& Get();

  // Before the first step into gRPC; waits while a fork is under way. False once the process is exiting (its static
  // objects, gRPC's among them, are being destroyed): make no call then, and do not Leave.
  [[nodiscard]] bool Enter(Waker* waker) TB_EXCLUDES(mutex_);
  void Leave(Waker* waker) TB_EXCLUDES(mutex_);
  // From the first exit handler on, true.
  bool exiting() const { return exiting_.load(std::memory_order_relaxed); }

  // The fork handlers'. Close waits (at most a second) until nobody is inside, and holds the gate's lock until Open or
  // ResetInChild.
  void Close() TB_ACQUIRE(mutex_);
  void Open() TB_RELEASE(mutex_);
  void ResetInChild() TB_RELEASE(mutex_);
  // The exit handler's: calls everyone out, and refuses whoever would enter.
  void CloseForExit() TB_EXCLUDES(mutex_);

 private:
  Mutex mutex_;
  CondVar changed_;
  Waker* inside_ TB_GUARDED_BY(mutex_) = nullptr;  // list head
  bool forking_ TB_GUARDED_BY(mutex_) = false;
  std::atomic<bool> exiting_{false};
};

// A child of this process that may still have its mappings: it has until it ends or execs. Two things tell. A pipe, whose
// other end the child has, hangs up then, but also when a child (a daemon, say) closes all its descriptors. A page of a
// memfd, which the child has mapped shared and writable and nobody else has, can be sealed against writing only when no
// such mapping is left: that decides, but nobody is woken by it.
struct LiveFork {
  uint64_t number = 0;  // 1 for the first fork
  std::shared_ptr<Fd>
      pipe;  // never null. Invalid: has hung up, or there was no descriptor for it; ask again every second
  std::shared_ptr<Fd>
      page;  // never null. Invalid: the pipe decides; without either the child counts as alive
};

// Counts forks and knows which of their children live. Process-wide, never destroyed. Thread-safe.
class Forks {
 public:
  static Forks& Get();

  // Forks so far. A hold remembers it at its first grant and when its last handle ended: the children with numbers
  // between the two have seen it.
  uint64_t count() const { return count_.load(std::memory_order_acquire); }
  // The numbers of the children that may live, ascending.
  std::vector<uint64_t> alive_numbers() TB_EXCLUDES(mutex_);
  std::vector<LiveFork> alive() TB_EXCLUDES(mutex_);
  // Forgets the children that have ended or exec'ed; gives how many those were. Never blocks.
  size_t Reap() TB_EXCLUDES(mutex_);
  // Keeps what the next fork needs at hand, so that a process can be out of descriptors then; while there are sessions.
  void KeepSpare() TB_EXCLUDES(mutex_);
  void DropSpare() TB_EXCLUDES(mutex_);

  // The fork handlers'. Lock makes the pipe and maps the page where `watch`.
  void Lock(bool watch) TB_ACQUIRE(mutex_);
  void UnlockInParent() TB_RELEASE(mutex_);
  void UnlockInChild() TB_RELEASE(mutex_);

 private:
  size_t ReapLocked() TB_REQUIRES(mutex_);

  Mutex mutex_;
  std::atomic<uint64_t> count_{0};
  std::vector<LiveFork> alive_ TB_GUARDED_BY(mutex_);
  Fd spare_page_ TB_GUARDED_BY(mutex_);
  // From Lock to Unlock:
  bool watch_ TB_GUARDED_BY(mutex_) = false;
  Fd page_ TB_GUARDED_BY(mutex_);
  void* page_address_ TB_GUARDED_BY(mutex_) = nullptr;
  Fd read_end_ TB_GUARDED_BY(mutex_);
  Fd write_end_ TB_GUARDED_BY(mutex_);
};

// What the registry of sessions does at a fork.
struct ForkHooks {
  // Takes the registry's and all sessions' locks; true where there is a session, so that the child is to be watched.
  bool (*lock)();
  void (*unlock_in_parent)();
  void (*unlock_in_child)();
};

// Installs the fork and exit handlers, once a process. Call it after gRPC was initialised: handlers of pthread_atfork
// and atexit then run before gRPC's own.
void InstallHandlers(const ForkHooks& hooks);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_FORK_H_
