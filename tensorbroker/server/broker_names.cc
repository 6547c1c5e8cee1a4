// The Broker's rules for names.
#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/name.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/broker_internal.h"

namespace tensorbroker {
void Broker::BindName(const std::string& name, Binding binding, StorageEntry& entry, const Session* session,
                      EventKind kind, std::string_view from, After& after) {
  const uint64_t storage = binding.storage;
  const TimePoint expires = binding.expires;
  const Catalog::Change change = catalog_.Bind(name, std::move(binding));
  const std::string_view key = change.now->first;
  if (!change.before || change.before->storage != storage) {
    entry.names.push_back(key);
    storages_.Recount(entry);
  }
  if (kind == EventKind::kRenamed) {
    EmitName(kind, from, name, change.now->second, session, after);
  } else {
    EmitName(kind, name, {}, change.now->second, session, after);
  }
  if (expires != TimePoint::max()) Arm(expires, after);
  if (change.before && change.before->storage != storage) {
    StorageEntry& old = *storages_.Find(change.before->storage);
    std::erase_if(old.names, [key](std::string_view other) { return other.data() == key.data(); });
    storages_.Recount(old);
    FreeIfUnused(old, after);
  }
  WakeWaiters(name, after);
}

void Broker::RemoveName(std::string_view name, const Session* session, After& after) {
  const auto it = catalog_.names().find(name);
  if (it == catalog_.names().end()) return;
  StorageEntry& entry = *storages_.Find(it->second.storage);
  const std::string_view key = it->first;
  std::erase_if(entry.names, [key](std::string_view other) { return other.data() == key.data(); });
  EmitName(EventKind::kUnpublished, key, {}, it->second, session, after);
  catalog_.Remove(key);
  storages_.Recount(entry);
  FreeIfUnused(entry, after);
}

StatusOr<uint64_t> Broker::Publish(Connection& connection, const PublishCall& call) {
  TB_RETURN_IF_ERROR(InCall("Publish", CheckName(call.name)));
  if (call.ttl_ns < 0) {
    return InvalidArgumentError(fmt::format("Publish {}: a time limit of {} ns is negative",
                                            QuoteForMessage(call.name), call.ttl_ns));
  }
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Publish", connection, call.token));
  StorageEntry* const entry = storages_.Find(call.storage, options_.epoch);
  if (entry == nullptr || !session->holds.contains(call.storage.serial)) {
    return NotFoundError(fmt::format("Publish {}: this session does not hold the Storage {}",
                                     QuoteForMessage(call.name), ToString(call.storage)));
  }
  if (entry->deleted) {
    return NotFoundError(fmt::format("Publish {}: the Storage {} was deleted", QuoteForMessage(call.name),
                                     ToString(call.storage)));
  }
  TB_RETURN_IF_ERROR(InCall("Publish", CheckFits(call.header, entry->storage.size_bytes)));
  const uid_t uid = session->peer->uid;
  const int64_t now_unix_ns = clock_.UnixNanos();
  TB_RETURN_IF_ERROR(
      catalog_.CheckBind("Publish", call.name, {uid, session->id.serial, now_unix_ns}, call.replace));
  const Binding* const bound = catalog_.Find(call.name, uid);
  const bool adds = bound == nullptr || bound->storage != call.storage.serial;
  if (adds && entry->names.size() >= options_.limits.names_per_storage) {
    return ResourceExhaustedError(
        fmt::format("Publish {}: the Storage {} has {} names already, which is the limit",
                    QuoteForMessage(call.name), ToString(call.storage), entry->names.size()));
  }
  Binding binding;
  binding.storage = call.storage.serial;
  binding.header = std::make_shared<const Header>(call.header);
  binding.owner_uid = uid;
  binding.publisher = session->id.serial;
  binding.publisher_pid = session->peer->pid;
  binding.persistent = call.persistent;
  binding.published_unix_ns = now_unix_ns;
  if (call.ttl_ns > 0) {
    binding.expires = DeadlineAfter(clock_.Now(), Duration(call.ttl_ns));
    if (__builtin_add_overflow(now_unix_ns, call.ttl_ns, &binding.expires_unix_ns))
      binding.expires_unix_ns = 0;
  }
  BindName(call.name, std::move(binding), *entry, session, EventKind::kPublished, {}, after);
  return catalog_.names().find(call.name)->second.version;
}

Status Broker::Unpublish(Connection& connection, std::string_view token, std::string_view name) {
  TB_RETURN_IF_ERROR(InCall("Unpublish", CheckName(name)));
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Unpublish", connection, token));
  if (catalog_.Find(name, session->peer->uid) == nullptr) {
    return NotFoundError(
        fmt::format("Unpublish {}: no such name (`tensorctl ls` lists them)", QuoteForMessage(name)));
  }
  RemoveName(name, session, after);
  return OkStatus();
}

Status Broker::Rename(Connection& connection, std::string_view token, std::string_view from,
                      std::string_view to, bool replace) {
  TB_RETURN_IF_ERROR(InCall("Rename", CheckName(from)));
  TB_RETURN_IF_ERROR(InCall("Rename", CheckName(to)));
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Rename", connection, token));
  const Binding* const found = catalog_.Find(from, session->peer->uid);
  if (found == nullptr) {
    return NotFoundError(
        fmt::format("Rename {}: no such name (`tensorctl ls` lists them)", QuoteForMessage(from)));
  }
  if (from == to) return OkStatus();
  TB_RETURN_IF_ERROR(catalog_.CheckBind(
      "Rename to", to, {session->peer->uid, session->id.serial, clock_.UnixNanos()}, replace));
  StorageEntry& entry = *storages_.Find(found->storage);
  const Binding binding = *found;
  const std::string old_name(from);
  const auto it = catalog_.names().find(from);
  const std::string_view key = it->first;
  const Keep keep(entry);  // it is bound again below, so it is used at the end
  std::erase_if(entry.names, [key](std::string_view other) { return other.data() == key.data(); });
  catalog_.Remove(from);
  BindName(std::string(to), binding, entry, session, EventKind::kRenamed, old_name, after);
  return OkStatus();
}

StatusOr<uint32_t> Broker::Delete(Connection& connection, std::string_view token, StorageId storage) {
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("Delete", connection, token));
  StorageEntry* const entry = Visible(storage, session->peer->uid);
  if (entry == nullptr || entry->deleted) {
    return NotFoundError(
        fmt::format("Delete {}: no such Storage, or it was deleted before", ToString(storage)));
  }
  entry->deleted = true;
  const uint32_t holders = entry->live_holders;
  {
    const Keep keep(*entry);
    while (!entry->names.empty()) RemoveName(std::string(entry->names.back()), session, after);
    DropTransfers(*entry, entry->transfers);
  }
  FreeIfUnused(*entry, after);
  return holders;
}

}  // namespace tensorbroker
