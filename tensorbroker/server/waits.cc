#include "tensorbroker/server/waits.h"

#include <fmt/format.h>

#include "tensorbroker/base/name.h"

namespace tensorbroker {

Status Waits::Add(Waiter waiter) {
  TB_RETURN_IF_ERROR(pool_.CheckRoom(waiter.uid, fmt::format("AwaitOpen {}", QuoteForMessage(waiter.name)),
                                     "calls that wait"));
  pool_.Add(waiter.uid);
  const uint64_t id = waiter.id;
  const Waiter& added = waiters_.emplace(id, std::move(waiter)).first->second;
  by_name_.emplace(added.name, id);
  if (added.deadline != TimePoint::max()) due_.emplace(added.deadline, id);
  return OkStatus();
}

std::optional<Waiter> Waits::Take(uint64_t id) {
  const auto it = waiters_.find(id);
  if (it == waiters_.end()) return std::nullopt;
  by_name_.erase({it->second.name, id});
  if (it->second.deadline != TimePoint::max()) due_.erase({it->second.deadline, id});
  Waiter waiter = std::move(it->second);
  pool_.Remove(waiter.uid);
  waiters_.erase(it);
  return waiter;
}

std::vector<uint64_t> Waits::Of(std::string_view name) const {
  std::vector<uint64_t> ids;
  for (auto it = by_name_.lower_bound({name, 0}); it != by_name_.end() && it->first == name; ++it) {
    ids.push_back(it->second);
  }
  return ids;
}

const Waiter* Waits::Find(uint64_t id) const {
  const auto it = waiters_.find(id);
  return it == waiters_.end() ? nullptr : &it->second;
}

std::optional<Waiter> Waits::TakeDue(TimePoint now) {
  if (due_.empty() || due_.begin()->first > now) return std::nullopt;
  return Take(due_.begin()->second);
}

std::optional<Waiter> Waits::TakeAny() {
  return waiters_.empty() ? std::nullopt : Take(waiters_.begin()->first);
}

}  // namespace tensorbroker
