// A call in gRPC's hands, and the gate that keeps gRPC's locks free at a fork and at exit. Of the client's files, this one
// and connection.cc know gRPC.
#ifndef TENSORBROKER_CLIENT_PENDING_CALL_H_
#define TENSORBROKER_CLIENT_PENDING_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <atomic>
#include <memory>
#include <optional>
#include <utility>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/client/fork.h"

namespace tensorbroker::internal {

// Remembers `object` for good, so that a search for leaks finds it in use. Takes no lock.
void KeepReachable(void* object);

// Gives up what gRPC still works on, or must not be told to end: its memory stays.
template <typename T>
void Leak(std::unique_ptr<T> object) {
  if (object != nullptr) KeepReachable(object.release());
}

// Short steps into gRPC: the making and ending of its objects, which take its locks too.
class GatePass : public CallGate::Waker {
 public:
  GatePass() : entered_(CallGate::Get().Enter(this)) {}
  ~GatePass() override {
    if (entered_) CallGate::Get().Leave(this);
  }
  bool entered() const { return entered_; }
  void Wake() override {}  // it is out in a moment

 private:
  const bool entered_;
};

// Ends an object of gRPC's, or leaks it where the process is exiting.
template <typename T>
void EndInGate(std::unique_ptr<T> object) {
  const GatePass pass;
  if (pass.entered()) {
    object.reset();
  } else {
    Leak(std::move(object));
  }
}

// A call driven by one thread. On the heap, so that it can be leaked where gRPC keeps it. Wake apart, used by that thread
// only.
class PendingCall : public CallGate::Waker {
 public:
  explicit PendingCall(std::unique_ptr<grpc::CompletionQueue> queue);
  ~PendingCall() override;

  grpc::ClientContext& context() { return *context_; }
  grpc::CompletionQueue* queue() { return queue_.get(); }
  void* tag() { return this; }

  // False where the process is exiting.
  [[nodiscard]] bool Enter() { return entered_ = CallGate::Get().Enter(this); }
  void Leave() {
    if (std::exchange(entered_, false)) CallGate::Get().Leave(this);
  }

  // Waits for the operation that was started with tag(); `ok` is its result. False where `deadline` passed first, or
  // the process is exiting: the operation is still gRPC's.
  bool Await(TimePoint deadline, bool* ok);
  // Cancels what is under way and waits a moment for it to come back. False: it did not; leak this call.
  bool Cancel(bool* ok);
  // After the last operation (and the reader's end): the queue, for another call; null where the process is exiting.
  std::unique_ptr<grpc::CompletionQueue> Finish();

  // Run by a thread that is about to fork or exit, under the gate's lock, while this call's thread is inside.
  void Wake() override;

 private:
  std::unique_ptr<grpc::CompletionQueue> queue_;
  std::optional<grpc::ClientContext> context_{std::in_place};
  std::unique_ptr<grpc::Alarm> alarm_;
  // Written by Wake under the gate's lock, by this call's thread while that thread is inside: the two never meet, since
  // Leave and Enter take the lock, and gRPC hands the alarm's event over.
  std::atomic<bool> alarm_set_{false};
  bool entered_ = false;
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_PENDING_CALL_H_
