// Client::OnEvent: a thread that watches and calls back.
#include <unistd.h>

#include <thread>
#include <utility>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/client/fork.h"
#include "tensorbroker/client/session.h"
#include "tensorbroker/client/thread.h"

namespace tensorbroker {

class Subscription::Impl {
 public:
  Impl(std::shared_ptr<internal::Session> session, std::string prefix,
       std::function<void(const Event&)> callback)
      : session_(std::move(session)), prefix_(std::move(prefix)), callback_(std::move(callback)) {}

  // Returns once the watch is on.
  Status Start() TB_EXCLUDES(mutex_) {
    TB_ASSIGN_OR_RETURN(thread_, internal::StartThread("OnEvent", [this] { Run(); }));
    MutexLock lock(mutex_);
    while (!ready_ && !ended_) changed_.Wait(mutex_);
    return ready_ ? OkStatus() : status_;
  }

  Status status() const TB_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return status_;
  }

  // False: the thread cannot be waited for (this is a forked child, or the process is exiting): leak this object.
  bool End() {
    if (owner_ != getpid() || internal::CallGate::Get().exiting()) {
      if (owner_ == getpid() && thread_.joinable()) thread_.detach();
      return false;
    }
    canceller_.Cancel();
    if (thread_.joinable()) thread_.join();
    return true;
  }

 private:
  void Run() TB_EXCLUDES(mutex_) {
    pthread_setname_np(pthread_self(), "tb-events");
    Status status;
    const auto link = session_->GetLink(session_->DefaultDeadline());
    if (link.ok()) {
      status = (*link)->calls().Watch(
          prefix_, session_->default_deadline(), TimePoint::max(), &canceller_,
          [this] {
            MutexLock lock(mutex_);
            ready_ = true;
            changed_.NotifyAll();
          },
          [this](const Event& event) {
            callback_(event);
            return true;
          });
    } else {
      status = link.status();
    }
    MutexLock lock(mutex_);
    status_ = status;
    ended_ = true;
    changed_.NotifyAll();
  }

  const pid_t owner_ = getpid();
  const std::shared_ptr<internal::Session> session_;
  const std::string prefix_;
  const std::function<void(const Event&)> callback_;
  internal::WatchCanceller canceller_;
  std::thread thread_;

  mutable Mutex mutex_;
  CondVar changed_;
  bool ready_ TB_GUARDED_BY(mutex_) = false;
  bool ended_ TB_GUARDED_BY(mutex_) = false;
  Status status_ TB_GUARDED_BY(mutex_);
};

Subscription::Subscription(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Subscription::Subscription(Subscription&&) noexcept = default;

Subscription& Subscription::operator=(Subscription&& other) noexcept {
  Subscription old(std::move(impl_));
  impl_ = std::move(other.impl_);
  return *this;
}

Subscription::~Subscription() {
  if (impl_ != nullptr && !impl_->End()) [[maybe_unused]]
    const Impl* leaked = impl_.release();
}

Status Subscription::status() const { return impl_->status(); }

StatusOr<Subscription> Client::OnEvent(std::function<void(const Event&)> callback,
                                       std::string_view prefix) const {
  Subscription subscription(
      std::make_unique<Subscription::Impl>(session_, std::string(prefix), std::move(callback)));
  TB_RETURN_IF_ERROR(subscription.impl_->Start());
  return subscription;
}

}  // namespace tensorbroker
