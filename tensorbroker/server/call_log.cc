#include "tensorbroker/server/call_log.h"

#include <fmt/format.h>

#include <utility>

namespace tensorbroker {

StatusOr<std::optional<CallAnswer>> CallLog::Begin(uint64_t call_id) {
  if (call_id == 0) return std::optional<CallAnswer>();
  if (const auto it = granted_.find(call_id); it != granted_.end())
    return std::optional<CallAnswer>(it->second);
  if (abandoned_.contains(call_id)) {
    return AbortedError(fmt::format("call {}: the caller abandoned it before it arrived", call_id));
  }
  if (!under_way_.insert(call_id).second) {
    return AbortedError(fmt::format("call {}: a call of this id is under way; wait for its answer", call_id));
  }
  return std::optional<CallAnswer>();
}

bool CallLog::AbandonedMeanwhile(uint64_t call_id) {
  if (call_id == 0 || !abandoned_.contains(call_id)) return false;
  under_way_.erase(call_id);
  return true;
}

void CallLog::Granted(uint64_t call_id, CallAnswer answer) {
  if (call_id == 0) return;
  under_way_.erase(call_id);
  if (!granted_.emplace(call_id, std::move(answer)).second) return;
  granted_order_.push_back(call_id);
  if (granted_order_.size() > capacity_) {
    granted_.erase(granted_order_.front());
    granted_order_.pop_front();
  }
}

void CallLog::Failed(uint64_t call_id) { under_way_.erase(call_id); }

std::optional<CallAnswer> CallLog::Abandon(uint64_t call_id) {
  if (call_id == 0) return std::nullopt;
  std::optional<CallAnswer> taken;
  if (const auto it = granted_.find(call_id); it != granted_.end()) {
    taken = std::move(it->second);
    granted_.erase(it);
    std::erase(granted_order_, call_id);
  }
  if (abandoned_.insert(call_id).second) {
    abandoned_order_.push_back(call_id);
    if (abandoned_order_.size() > capacity_) {
      abandoned_.erase(abandoned_order_.front());
      abandoned_order_.pop_front();
    }
  }
  return taken;
}

}  // namespace tensorbroker
