#include "tensorbroker/server/streams.h"

#include "tensorbroker/base/mutex.h"

namespace tensorbroker {
namespace {

constexpr size_t kEventsAMessage = 256;

// Lives until OnDone. The Broker's wake holds it weakly and may come at any time.
class WatchReactor final : public grpc::ServerWriteReactor<v1::WatchReply>,
                           public std::enable_shared_from_this<WatchReactor> {
 public:
  explicit WatchReactor(Broker* broker) : broker_(broker), watch_(broker->NewCall()) {}

  void Start(const std::shared_ptr<Connection>& connection, const std::string& token,
             const std::string& prefix) {
    self_ = shared_from_this();
    Status begun = UnavailableError("the connection has ended; connect again");
    if (connection != nullptr) {
      begun = broker_->Watch(*connection, token, prefix, watch_, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) self->Pump();
      });
    }
    if (begun.ok()) {
      StartWrite(&reply_);  // empty: the watch is on. busy_ is true from the beginning.
    } else {
      Finish(ToGrpc(begun));  // busy_ stays true: nothing else is written
    }
  }

  void OnWriteDone(bool ok) override {
    if (!ok) broker_->StopWatch(watch_);  // then TakeEvents says that it is over
    {
      MutexLock lock(mutex_);
      busy_ = false;
    }
    Pump();
  }
  void OnCancel() override {
    broker_->StopWatch(watch_);
    Pump();
  }
  void OnDone() override {
    broker_->StopWatch(watch_);
    self_.reset();
  }

 private:
  void Pump() {
    {
      MutexLock lock(mutex_);
      if (busy_) {
        again_ = true;
        return;
      }
      busy_ = true;
    }
    for (;;) {
      const StatusOr<std::vector<Event>> events = broker_->TakeEvents(watch_, kEventsAMessage);
      if (!events.ok()) return Finish(ToGrpc(events.status()));  // stays busy
      if (!events->empty()) {
        reply_.Clear();
        for (const Event& event : *events) ToProto(event, reply_.add_events());
        return StartWrite(&reply_);
      }
      // Nothing there: from now on there will be a wake. One that came while this was busy is seen here.
      MutexLock lock(mutex_);
      if (!std::exchange(again_, false)) {
        busy_ = false;
        return;
      }
    }
  }

  Broker* const broker_;
  const uint64_t watch_;
  std::shared_ptr<WatchReactor> self_;
  v1::WatchReply reply_;
  Mutex mutex_;
  bool busy_ TB_GUARDED_BY(mutex_) = true;    // a write is under way, or somebody pumps, or it is over
  bool again_ TB_GUARDED_BY(mutex_) = false;  // a wake came while it was busy
};

}  // namespace

grpc::ServerWriteReactor<v1::WatchReply>* StartWatch(Broker* broker,
                                                     const std::shared_ptr<Connection>& connection,
                                                     const std::string& token, const std::string& prefix) {
  auto reactor = std::make_shared<WatchReactor>(broker);
  reactor->Start(connection, token, prefix);
  return reactor.get();
}

}  // namespace tensorbroker
