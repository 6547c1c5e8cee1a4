#include "tensorbroker/server/events.h"

#include <algorithm>

#include "tensorbroker/server/access.h"

namespace tensorbroker {

Status Events::Add(uint64_t watch, uid_t uid, std::string_view prefix, std::function<void()> wake) {
  TB_RETURN_IF_ERROR(pool_.CheckRoom(uid, "Watch", "watchers"));
  pool_.Add(uid);
  Watcher& watcher = watchers_[watch];
  watcher.uid = uid;
  watcher.prefix = prefix;
  watcher.wake = std::move(wake);
  return OkStatus();
}

void Events::Close(uint64_t watch, std::vector<std::function<void()>>& wakes) {
  const auto it = watchers_.find(watch);
  if (it == watchers_.end()) return;
  pool_.Remove(it->second.uid);
  wakes.push_back(std::move(it->second.wake));
  watchers_.erase(it);
}

void Events::Emit(Event event, uid_t owner, std::vector<std::function<void()>>& wakes,
                  const std::vector<std::string_view>& names) {
  std::shared_ptr<const Event> shared;  // under the name that `event` has
  for (auto& [id, watcher] : watchers_) {
    if (!MaySee(watcher.uid, owner)) continue;
    std::string_view name = event.name;
    if (!name.starts_with(watcher.prefix) && !event.new_name.starts_with(watcher.prefix)) {
      const auto other = std::find_if(
          names.begin(), names.end(),
          [&watcher = watcher](std::string_view each) { return each.starts_with(watcher.prefix); });
      if (other == names.end()) continue;
      name = *other;
    }
    if (watcher.lost > 0 || watcher.queue.size() >= limits_.events_per_watcher) {
      // Once something is lost, all is until the queue has been taken: LAGGED has one place.
      if (watcher.lost++ == 0) watcher.lost_since_unix_ns = event.unix_ns;
      continue;
    }
    if (name != event.name) {
      auto named = std::make_shared<Event>(event);
      named->name = name;
      watcher.queue.push_back(std::move(named));
    } else {
      if (shared == nullptr) shared = std::make_shared<const Event>(event);
      watcher.queue.push_back(shared);
    }
    if (std::exchange(watcher.asleep, false)) wakes.push_back(watcher.wake);
  }
}

std::vector<Event> Events::Take(uint64_t watch, size_t count) {
  std::vector<Event> events;
  const auto it = watchers_.find(watch);
  if (it == watchers_.end()) return events;
  Watcher& watcher = it->second;
  while (!watcher.queue.empty() && events.size() < count) {
    events.push_back(*watcher.queue.front());
    watcher.queue.pop_front();
  }
  if (watcher.queue.empty() && watcher.lost > 0 && events.size() < count) {
    Event lagged;
    lagged.kind = EventKind::kLagged;
    lagged.unix_ns = watcher.lost_since_unix_ns;
    lagged.lost = std::exchange(watcher.lost, 0);
    events.push_back(std::move(lagged));
  }
  watcher.asleep = events.empty();
  return events;
}

}  // namespace tensorbroker
