#include "tensorbroker/client/pending_call.h"

#include <grpc/support/time.h>

#include <algorithm>
#include <chrono>

namespace tensorbroker::internal {

namespace {

gpr_timespec ToGpr(TimePoint deadline) {
  if (deadline == TimePoint::max()) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  const int64_t ns = std::max<int64_t>(0, (deadline - Clock::Real().Now()).count());
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_nanos(ns, GPR_TIMESPAN));
}

struct Kept {
  void* object;
  Kept* next;
};
std::atomic<Kept*> g_kept{nullptr};

}  // namespace

void KeepReachable(void* object) {
  auto* kept = new Kept{object, g_kept.load()};
  while (!g_kept.compare_exchange_weak(kept->next, kept)) {
  }
}

PendingCall::PendingCall(std::unique_ptr<grpc::CompletionQueue> queue) : queue_(std::move(queue)) {}
PendingCall::~PendingCall() = default;

bool PendingCall::Await(TimePoint deadline, bool* ok) {
  void* got = nullptr;
  while (queue_->AsyncNext(&got, ok, ToGpr(deadline)) == grpc::CompletionQueue::GOT_EVENT) {
    if (got == tag()) return true;
    // The alarm: a fork waits for this thread to be out of gRPC.
    alarm_set_ = false;
    Leave();
    if (!Enter()) return false;
  }
  return false;
}

bool PendingCall::Cancel(bool* ok) {
  if (!entered_) return false;
  context_->TryCancel();
  return Await(DeadlineAfter(Clock::Real().Now(), std::chrono::seconds(1)), ok);
}

std::unique_ptr<grpc::CompletionQueue> PendingCall::Finish() {
  context_.reset();
  Leave();  // from here on no Wake
  if (alarm_ == nullptr) return std::move(queue_);
  const GatePass pass;
  if (!pass.entered()) {
    Leak(std::move(alarm_));
    Leak(std::move(queue_));
    return nullptr;
  }
  if (alarm_set_) {  // it came too late
    void* got = nullptr;
    bool ok = false;
    queue_->Next(&got, &ok);
  }
  alarm_.reset();
  return std::move(queue_);
}

void PendingCall::Wake() {
  if (alarm_set_) return;
  alarm_set_ = true;
  alarm_ = std::make_unique<grpc::Alarm>();
  alarm_->Set(queue_.get(), gpr_now(GPR_CLOCK_MONOTONIC), &alarm_);
}

}  // namespace tensorbroker::internal
