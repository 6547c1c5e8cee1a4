#include "tensorbroker/server/connections.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <charconv>
#include <utility>
#include <vector>

#include "tensorbroker/base/log.h"

namespace tensorbroker {

Connections::~Connections() { Clear(); }

StatusOr<Fd> Connections::Add(Fd socket, PeerIdentity peer) {
  auto entry = std::make_shared<Entry>();
  TB_ASSIGN_OR_RETURN(entry->watch, Dup(socket.get()));
  entry->number = socket.get();
  entry->connection = std::make_shared<Connection>(std::make_shared<const PeerIdentity>(std::move(peer)));
  std::shared_ptr<Entry> stale;
  {
    MutexLock lock(mutex_);
    const auto it = entries_.find(entry->number);
    if (it != entries_.end()) stale = it->second;
  }
  // gRPC closed the earlier connection of this number, and its hang-up has not been seen yet.
  if (stale != nullptr) Remove(stale);
  const std::weak_ptr<Entry> weak = entry;
  TB_RETURN_IF_ERROR(loop_->Add(entry->watch.get(), EPOLLRDHUP, [this, weak](uint32_t) {
    if (const auto gone = weak.lock()) Remove(gone);
  }));
  entry->timer = loop_->RunAfter(session_within_, [weak] {
    const auto late = weak.lock();
    if (late == nullptr) return;
    late->timer = 0;
    if (late->connection->session.load(std::memory_order_relaxed) != 0) return;
    Log(LogLevel::kInfo, "connection_closed",
        {{"cause", "opened no session"}, {"peer", late->connection->peer->ToString()}});
    ::shutdown(late->watch.get(), SHUT_RDWR);
  });
  ++counts_[entry->connection->peer->uid];
  MutexLock lock(mutex_);
  entries_.emplace(entry->number, std::move(entry));
  return socket;
}

std::shared_ptr<Connection> Connections::Find(std::string_view peer) const {
  constexpr std::string_view kPrefix = "fd:";
  if (!peer.starts_with(kPrefix)) return nullptr;
  peer.remove_prefix(kPrefix.size());
  int number = -1;
  const auto [end, error] = std::from_chars(peer.data(), peer.data() + peer.size(), number);
  if (error != std::errc() || end != peer.data() + peer.size()) return nullptr;
  MutexLock lock(mutex_);
  const auto it = entries_.find(number);
  return it == entries_.end() ? nullptr : it->second->connection;
}

size_t Connections::CountOf(uid_t uid) const {
  const auto it = counts_.find(uid);
  return it == counts_.end() ? 0 : it->second;
}

void Connections::Remove(const std::shared_ptr<Entry>& entry) {
  {
    MutexLock lock(mutex_);
    const auto it = entries_.find(entry->number);
    if (it == entries_.end() || it->second != entry) return;
    entries_.erase(it);
  }
  loop_->Remove(entry->watch.get());
  if (entry->timer != 0) loop_->Cancel(entry->timer);
  const auto count = counts_.find(entry->connection->peer->uid);
  if (--count->second == 0) counts_.erase(count);
  entry->watch.reset();
}

void Connections::Clear() {
  std::vector<std::shared_ptr<Entry>> all;
  {
    MutexLock lock(mutex_);
    for (const auto& [number, entry] : entries_) all.push_back(entry);
  }
  for (const auto& entry : all) Remove(entry);
}

}  // namespace tensorbroker
