// What the Broker tells operators and watchers.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tensorbroker/base/name.h"
#include "tensorbroker/ipc/numa.h"
#include "tensorbroker/ipc/process.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/broker_internal.h"

namespace tensorbroker {
namespace {

constexpr size_t kMaxPids = 1000;
constexpr size_t kMaxHeldIds = 100'000;

// Command lines by pid, each read once: for people, so a process that has ended has none.
class CommandLines {
 public:
  const std::string& Of(int32_t pid) {
    const auto [it, added] = lines_.try_emplace(pid);
    if (added && pid > 0) it->second = ReadCommandLine(pid).value_or("");
    return it->second;
  }

 private:
  std::map<int32_t, std::string> lines_;
};

void AddCommands(StorageRecord& record, CommandLines& commands) {
  for (Holder& holder : record.holders) {
    if (!holder.quarantined) holder.command = commands.Of(holder.pid);
  }
}

// By a mapping of a moment, of the whole Segment: hugetlbfs maps nothing smaller than its pages. Whatever fails (heap
// memory has no descriptor) means "not known".
std::vector<int32_t> NodesOf(Segment& segment) {
  const StatusOr<Fd> fd = segment.OpenForGrant(Access::kReadOnly);
  if (!fd.ok()) return {};
  const auto mapping = Mapping::Map(*fd, 0, segment.info().size_bytes, Access::kReadOnly);
  if (!mapping.ok()) return {};
  return NumaNodes(
      {static_cast<const std::byte*>(mapping->data()), static_cast<size_t>(mapping->size_bytes())});
}

}  // namespace

StorageRecord Broker::Record(const StorageEntry& entry, uid_t uid, bool holders) {
  StorageRecord record;
  record.id = entry.storage.id;
  record.size_bytes = entry.storage.size_bytes;
  record.reserved_bytes = entry.storage.reserved_bytes();
  record.device = entry.storage.device;
  record.state = entry.state();
  if (entry.header != nullptr) record.header = *entry.header;
  for (const std::string_view name : entry.names) {
    const Binding* const binding = catalog_.Find(name, uid);
    if (binding == nullptr) continue;
    NameBinding& out = record.names.emplace_back();
    out.name = name;
    out.version = binding->version;
    out.header = *binding->header;
    out.published_unix_ns = binding->published_unix_ns;
    out.persistent = binding->persistent;
    out.expires_unix_ns = binding->expires_unix_ns;
    out.publisher_pid = binding->publisher_pid;
    out.publisher_alive = catalog_.alive(binding->publisher);
  }
  std::sort(record.names.begin(), record.names.end(),
            [](const NameBinding& a, const NameBinding& b) { return a.name < b.name; });
  record.created_unix_ns = entry.storage.created_unix_ns;
  record.creator_pid = entry.creator_pid;
  record.owner_uid = entry.storage.domain.uid;
  // Who may see a Storage is its owner, or root; its holders are theirs too.
  const bool all = MaySee(uid, 0);
  record.holder_count = entry.live_holders - (all ? 0 : entry.live_foreign_holders);
  record.other_uids_holders = all ? 0 : entry.foreign_holders;
  for (const uint64_t serial : entry.holders) {
    if (!holders) break;
    const Session& session = *sessions_.Find(serial);
    const Hold& hold = session.holds.at(entry.serial());
    if (!MaySee(uid, session.peer->uid)) continue;
    Holder& out = record.holders.emplace_back();
    out.session = session.id;
    out.pid = session.peer->pid;
    out.uid = session.peer->uid;
    out.label = session.label;
    out.since_unix_ns = hold.since_unix_ns;
    out.access = hold.access;
    out.quarantined = hold.quarantined;
  }
  if (entry.transfers > 0) record.in_flight_from_pids = transfers_.PidsOf(entry.serial(), kMaxPids);
  if (const auto& segment = entry.storage.block.segment()) {
    record.segment = segment->info().id;
    record.segment_kind = Name(segment->info().kind);
    record.huge_pages = segment->info().huge_pages;
  }
  return record;
}

StatusOr<std::vector<StorageRecord>> Broker::ListPage(Connection& connection, const ListCall& call,
                                                      uint64_t* cursor, bool* end) {
  std::vector<StorageRecord> records;
  {
    MutexLock lock(mutex_);
    TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("List", connection, call.token));
    const uid_t uid = session->peer->uid;
    *end = false;
    // A Storage may have very many names and holders: then it is a page of its own.
    for (size_t cost = 0; cost < kItemsPerLock; ++cost) {
      const StorageEntry* const entry = storages_.After(*cursor);
      if (entry == nullptr) {
        *end = true;
        break;
      }
      *cursor = entry->serial();
      if (!MaySee(uid, entry->storage.domain.uid)) continue;
      const auto named = [&](std::string_view name) TB_NO_THREAD_SAFETY_ANALYSIS {
        return name.starts_with(call.prefix) && catalog_.Find(name, uid) != nullptr;
      };
      if (!call.prefix.empty() && std::none_of(entry->names.begin(), entry->names.end(), named)) continue;
      records.push_back(Record(*entry, uid, call.holders));
      cost += records.back().names.size() + records.back().holders.size();
    }
  }
  CommandLines commands;
  for (StorageRecord& record : records) AddCommands(record, commands);
  return records;
}

StatusOr<std::vector<SessionRecord>> Broker::ListSessionsPage(Connection& connection, std::string_view token,
                                                              bool held, uint64_t* cursor, bool* end) {
  std::vector<SessionRecord> records;
  {
    MutexLock lock(mutex_);
    TB_ASSIGN_OR_RETURN(const Session* const caller, Authenticate("ListSessions", connection, token));
    const uid_t uid = caller->peer->uid;
    *end = false;
    // A session may hold very many Storages: then it is a page of its own.
    size_t cost = 0;
    while (cost < kItemsPerLock) {
      const Session* const session = sessions_.After(*cursor);
      if (session == nullptr) {
        *end = true;
        break;
      }
      *cursor = session->id.serial;
      ++cost;
      if (!MaySee(uid, session->peer->uid) || session->ending) continue;
      SessionRecord& record = records.emplace_back();
      record.id = session->id;
      record.pid = session->peer->pid;
      record.uid = session->peer->uid;
      record.gid = session->peer->gid;
      record.label = session->label;
      record.since_unix_ns = session->since_unix_ns;
      record.storages = static_cast<uint32_t>(session->holds.size());
      record.bytes = session->held_bytes;
      record.quarantined = session->quarantined();
      if (!held) continue;
      for (const auto& [storage, hold] : session->holds) {
        if (record.held.size() == kMaxHeldIds) break;
        record.held.push_back({options_.epoch, storage});
      }
      std::sort(record.held.begin(), record.held.end());
      cost += record.held.size();
    }
  }
  CommandLines commands;
  for (SessionRecord& record : records) {
    if (!record.quarantined) record.command = commands.Of(record.pid);
  }
  return records;
}

Broker::Looked Broker::Look(const StorageEntry& entry, uid_t uid) {
  return {Record(entry, uid, /*holders=*/true), entry.storage.block.segment()};
}

StatusOr<StorageRecord> Broker::WithKernelsWord(StatusOr<Looked> looked) {
  if (!looked.ok()) return looked.status();
  CommandLines commands;
  AddCommands(looked->record, commands);
  if (looked->segment != nullptr) looked->record.numa_nodes = NodesOf(*looked->segment);
  return std::move(looked->record);
}

StatusOr<StorageRecord> Broker::StatName(Connection& connection, std::string_view token,
                                         std::string_view name) {
  TB_RETURN_IF_ERROR(InCall("Stat", CheckName(name)));
  return WithKernelsWord([&]() -> StatusOr<Looked> {
    MutexLock lock(mutex_);
    TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Stat", connection, token));
    const Binding* const binding = catalog_.Find(name, session->peer->uid);
    if (binding == nullptr) {
      return NotFoundError(
          fmt::format("Stat {}: no such name (`tensorctl ls` lists them)", QuoteForMessage(name)));
    }
    return Look(*storages_.Find(binding->storage), session->peer->uid);
  }());
}

StatusOr<StorageRecord> Broker::StatStorage(Connection& connection, std::string_view token,
                                            StorageId storage) {
  return WithKernelsWord([&]() -> StatusOr<Looked> {
    MutexLock lock(mutex_);
    TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Stat", connection, token));
    const StorageEntry* const entry = Visible(storage, session->peer->uid);
    if (entry == nullptr) {
      return NotFoundError(fmt::format("Stat {}: no such Storage (any more)", ToString(storage)));
    }
    return Look(*entry, session->peer->uid);
  }());
}

StatusOr<BrokerInfo> Broker::Info(Connection& connection, std::string_view token) {
  {
    MutexLock lock(mutex_);
    TB_RETURN_IF_ERROR(Authenticate("Info", connection, token).status());
  }
  BrokerInfo info = options_.facts;
  if (options_.look) options_.look(info);  // walks /proc: only for who may ask, and without the lock
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Info", connection, token));
  const uid_t uid = session->peer->uid;
  info.epoch = options_.epoch;
  info.capacity_bytes = budget_->capacity_bytes();
  info.used_bytes = budget_->used_bytes();
  info.quarantined_bytes = storages_.quarantined_bytes();
  info.storages = storages_.size();
  info.names = catalog_.size();
  info.sessions = sessions_.size();
  const Limits& limits = options_.limits;
  const auto add = [&info](std::string_view name, size_t value, int64_t used) {
    Limit& limit = info.limits.emplace_back();
    limit.name = name;
    limit.value = static_cast<int64_t>(value);
    limit.used = used;
    if (used >= 0 && static_cast<size_t>(used) * 10 >= value * 9) {
      limit.note = "nearly used up: the next calls get RESOURCE_EXHAUSTED";
    }
  };
  add("sessions", limits.sessions, static_cast<int64_t>(sessions_.size()));
  add("pending waits", limits.pending_waits, static_cast<int64_t>(waits_.size()));
  add("watchers", limits.watchers, static_cast<int64_t>(events_.size()));
  add("names a uid", limits.names_per_uid, static_cast<int64_t>(catalog_.CountOf(uid)));
  add("storages a uid", limits.storages_per_uid, static_cast<int64_t>(storages_.CountOf(uid)));
  add("names a storage", limits.names_per_storage, -1);
  add("transfer holds a session", limits.transfers_per_session, session->transfers);
  add("events queued a watcher", limits.events_per_watcher, -1);
  return info;
}

Status Broker::Watch(Connection& connection, std::string_view token, std::string_view prefix, uint64_t watch,
                     std::function<void()> wake) {
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("Watch", connection, token));
  TB_RETURN_IF_ERROR(events_.Add(watch, session->peer->uid, prefix, std::move(wake)));
  session->watches.insert(watch);
  watch_sessions_.emplace(watch, session->id.serial);
  return OkStatus();
}

StatusOr<std::vector<Event>> Broker::TakeEvents(uint64_t watch, size_t count) {
  MutexLock lock(mutex_);
  if (!watch_sessions_.contains(watch)) {
    if (stopping_) return UnavailableError("Watch: the broker is about to end");
    return UnauthenticatedError("Watch: the session has ended");
  }
  return events_.Take(watch, count);
}

void Broker::StopWatch(uint64_t watch) {
  std::vector<std::function<void()>> ignored;  // destroyed after the lock
  MutexLock lock(mutex_);
  events_.Close(watch, ignored);
  const auto it = watch_sessions_.find(watch);
  if (it == watch_sessions_.end()) return;
  if (Session* const session = sessions_.Find(it->second)) session->watches.erase(watch);
  watch_sessions_.erase(it);
}

Status Broker::CheckMayStop(Connection& connection, std::string_view token) {
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Stop", connection, token));
  if (MaySee(session->peer->uid, options_.admission.broker_uid)) return OkStatus();
  return PermissionDeniedError(
      fmt::format("Stop: uid {} may not end a broker of uid {}; only that uid and root may",
                  session->peer->uid, options_.admission.broker_uid));
}

}  // namespace tensorbroker
