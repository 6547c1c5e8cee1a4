// The Broker's private parts that its source files share.
#ifndef TENSORBROKER_SERVER_BROKER_INTERNAL_H_
#define TENSORBROKER_SERVER_BROKER_INTERNAL_H_

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbroker/server/broker.h"

namespace tensorbroker {

// Collects under the lock what is to be done without it: declared before the MutexLock, it does so when that has gone.
class Broker::After {
 public:
  explicit After(Broker* broker) : broker_(broker) {}
  ~After();
  After(const After&) = delete;
  After& operator=(const After&) = delete;

  void Do(std::function<void()> task) { tasks_.push_back(std::move(task)); }
  void Free(Storage storage) { freed_.push_back(std::move(storage)); }
  std::vector<std::function<void()>>& wakes() { return tasks_; }

 private:
  Broker* const broker_;
  std::vector<std::function<void()>> tasks_;
  std::vector<Storage> freed_;
};

struct Broker::PendingCreate {
  CreateCall call;
  uint64_t session = 0;
  AccessDomain domain;
  int32_t pid = 0;
  std::shared_ptr<std::atomic<bool>> gone;
  bool retried = false;  // after releases were asked for
  CreatedFn done;
};

// Names the call in a message that a rule class made without knowing it.
inline Status InCall(std::string_view call, const Status& status) { return Annotate(status, call); }

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_BROKER_INTERNAL_H_
