// The Broker's rules for holds: what gives a grant, what takes it back, and handles under way.
#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/log.h"
#include "tensorbroker/base/name.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/broker_internal.h"

namespace tensorbroker {
namespace {

Status NoSuchStorage(std::string_view call, StorageId id) {
  return NotFoundError(
      fmt::format("{} {}: no such Storage: nobody holds it any more, or it was deleted", call, ToString(id)));
}

}  // namespace

Grant Broker::GrantOf(const StorageEntry& entry, GrantAccess access) const {
  Grant grant;
  grant.storage = entry.storage.id;
  grant.size_bytes = entry.storage.size_bytes;
  grant.device = entry.storage.device;
  grant.access = access;
  if (const auto& segment = entry.storage.block.segment()) {
    grant.segment = segment->info().id;
    grant.segment_offset_bytes = entry.storage.block.offset_bytes();
    grant.segment_size_bytes = segment->info().size_bytes;
  }
  return grant;
}

Opened Broker::GrantTo(Session& session, StorageEntry& entry, uint64_t call_id, CallAnswer answer,
                       After& after) {
  const bool attached = storages_.AddGrant(session, entry, answer.access, clock_.UnixNanos());
  if (attached) EmitStorage(EventKind::kAttached, entry, &session, after);
  Opened opened;
  opened.grant = GrantOf(entry, answer.access);
  opened.header = answer.header;
  opened.version = answer.version;
  answer.storage = entry.serial();
  session.calls.Granted(call_id, std::move(answer));
  return opened;
}

StatusOr<Opened> Broker::Again(std::string_view call, Session& session, const CallAnswer& answer) {
  const StorageEntry* const entry = storages_.Find(answer.storage);
  if (entry == nullptr || !session.holds.contains(answer.storage)) {
    return NotFoundError(
        fmt::format("{}: the call was answered before, and its grant was given back since", call));
  }
  Opened opened;
  opened.grant = GrantOf(*entry, answer.access);
  opened.header = answer.header;
  opened.version = answer.version;
  return opened;
}

void Broker::TakeBack(Session& session, uint64_t storage, uint64_t grants, After& after) {
  StorageEntry* const entry = storages_.Find(storage);
  const auto hold = session.holds.find(storage);
  if (entry == nullptr || hold == session.holds.end() || hold->second.grants < grants) {
    Log(LogLevel::kDebug, "surplus_release",
        {{"session", session.id.serial},
         {"storage", storage},
         {"grants", grants},
         {"held", hold == session.holds.end() ? 0 : hold->second.grants}});
  }
  if (entry == nullptr || !storages_.ReturnGrants(session, *entry, grants)) return;
  EmitStorage(EventKind::kReleased, *entry, &session, after);
  FreeIfUnused(*entry, after);
}

// Item number `item` of the grants returned, then of the calls abandoned.
void Broker::TakeBackItem(Session& session, const Releases& releases, size_t item, After& after) {
  if (item < releases.returned.size()) {
    const Returned& returned = releases.returned[item];
    if (returned.storage.epoch != options_.epoch || returned.grants == 0) return;
    TakeBack(session, returned.storage.serial, returned.grants, after);
    return;
  }
  const std::optional<CallAnswer> answer =
      session.calls.Abandon(releases.abandoned_calls[item - releases.returned.size()]);
  if (!answer) return;
  if (!answer->transfer_token.empty()) return DropTransfer(*answer, after);
  if (answer->claim.first) RestoreTransfer(session, *answer, after);
  TakeBack(session, answer->storage, 1, after);
}

StatusOr<Opened> Broker::Open(Connection& connection, const OpenCall& call) {
  TB_RETURN_IF_ERROR(InCall("Open", CheckName(call.name)));
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("Open", connection, call.token));
  TB_ASSIGN_OR_RETURN(const std::optional<CallAnswer> before, session->calls.Begin(call.call_id));
  if (before) return Again("Open", *session, *before);
  const Binding* const binding = catalog_.Find(call.name, session->peer->uid);
  if (binding == nullptr) {
    session->calls.Failed(call.call_id);
    return NotFoundError(
        fmt::format("Open {}: no such name; `tensorctl ls` lists them, a timeout waits for one",
                    QuoteForMessage(call.name)));
  }
  return GrantTo(*session, *storages_.Find(binding->storage), call.call_id,
                 {0, call.access, binding->header, binding->version}, after);
}

void Broker::AwaitOpen(Connection& connection, const OpenCall& call, Duration timeout, uint64_t wait,
                       OpenedFn done) {
  if (Status bad = InCall("AwaitOpen", CheckName(call.name)); !bad.ok()) return done(std::move(bad));
  StatusOr<Opened> result = CancelledError("AwaitOpen");
  {
    After after(this);
    MutexLock lock(mutex_);
    result = [&]() TB_NO_THREAD_SAFETY_ANALYSIS -> StatusOr<Opened> {
      TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("AwaitOpen", connection, call.token));
      TB_ASSIGN_OR_RETURN(const std::optional<CallAnswer> before, session->calls.Begin(call.call_id));
      if (before) return Again("AwaitOpen", *session, *before);
      if (const Binding* const binding = catalog_.Find(call.name, session->peer->uid)) {
        return GrantTo(*session, *storages_.Find(binding->storage), call.call_id,
                       {0, call.access, binding->header, binding->version}, after);
      }
      Waiter waiter;
      waiter.id = wait;
      waiter.session = session->id.serial;
      waiter.uid = session->peer->uid;
      waiter.call_id = call.call_id;
      waiter.name = call.name;
      waiter.access = call.access;
      waiter.since = clock_.Now();
      waiter.deadline = timeout < Duration::zero() ? TimePoint::max() : DeadlineAfter(waiter.since, timeout);
      waiter.done = done;
      const TimePoint deadline = waiter.deadline;
      if (Status refused = waits_.Add(std::move(waiter)); !refused.ok()) {
        session->calls.Failed(call.call_id);
        return refused;
      }
      session->waits.insert(wait);
      Arm(deadline, after);
      done = nullptr;  // the waiter's now
      return CancelledError("");
    }();
  }
  if (done != nullptr) done(std::move(result));
}

void Broker::CancelWait(uint64_t wait) {
  std::optional<Waiter> waiter;
  {
    MutexLock lock(mutex_);
    waiter = waits_.Take(wait);
    if (!waiter) return;
    if (Session* const session = sessions_.Find(waiter->session)) {
      session->waits.erase(wait);
      session->calls.Failed(waiter->call_id);
    }
  }
  waiter->done(CancelledError("AwaitOpen: the caller has left"));
}

void Broker::WakeWaiters(std::string_view name, After& after) {
  for (const uint64_t id : waits_.Of(name)) {
    const Waiter* const found = waits_.Find(id);
    Session* const session = sessions_.Find(found->session);
    const Binding* const binding = session == nullptr ? nullptr : catalog_.Find(name, session->peer->uid);
    if (binding == nullptr) continue;
    Waiter waiter = *waits_.Take(id);
    session->waits.erase(id);
    StatusOr<Opened> result = AbortedError("AwaitOpen: the caller abandoned the call");
    if (!session->calls.AbandonedMeanwhile(waiter.call_id)) {
      result = GrantTo(*session, *storages_.Find(binding->storage), waiter.call_id,
                       {0, waiter.access, binding->header, binding->version}, after);
    }
    after.Do([done = std::move(waiter.done), result = std::move(result)] { done(result); });
  }
}

StatusOr<Opened> Broker::Attach(Connection& connection, const AttachCall& call) {
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("Attach", connection, call.token));
  TB_ASSIGN_OR_RETURN(const std::optional<CallAnswer> before, session->calls.Begin(call.call_id));
  if (before) return Again("Attach", *session, *before);
  StorageEntry* const entry = Visible(call.storage, session->peer->uid);
  // What only children of a dead session can reach is nobody's to attach to.
  if (entry == nullptr || entry->deleted || entry->only_quarantined()) {
    session->calls.Failed(call.call_id);
    return NoSuchStorage("Attach", call.storage);
  }
  return GrantTo(*session, *entry, call.call_id, {0, call.access, entry->header, 0}, after);
}

StatusOr<std::vector<Grant>> Broker::ClaimInherited(Connection& connection, std::string_view token,
                                                    std::string_view parent_token,
                                                    const std::vector<StorageId>& storages) {
  std::vector<Grant> grants;
  size_t next = 0;
  do {
    After after(this);
    MutexLock lock(mutex_);
    TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("ClaimInherited", connection, token));
    StatusOr<Session*> parent = sessions_.FindParent(parent_token, session->peer->uid);
    if (!parent.ok()) return InCall("ClaimInherited", parent.status());
    for (size_t i = 0; i < kItemsPerLock && next < storages.size(); ++i) {
      const StorageId id = storages[next++];
      StorageEntry* const entry = storages_.Find(id, options_.epoch);
      if (entry == nullptr) continue;
      const auto held = (*parent)->holds.find(id.serial);
      if (held == (*parent)->holds.end()) continue;
      const GrantAccess access = held->second.access;
      grants.push_back(GrantTo(*session, *entry, 0, {0, access, nullptr, 0}, after).grant);
    }
  } while (next < storages.size());
  return grants;
}

Status Broker::Release(Connection& connection, std::string_view token, const Releases& releases) {
  const size_t items = releases.returned.size() + releases.abandoned_calls.size();
  size_t next = 0;
  uint64_t serial = 0;
  do {
    After after(this);
    MutexLock lock(mutex_);
    Session* session = sessions_.Find(serial);
    if (serial == 0) {
      TB_ASSIGN_OR_RETURN(session, Authenticate("Release", connection, token));
      serial = session->id.serial;
      if (releases.number != 0) {
        // Sent again, because the first call's answer was lost or is late: a second time it could take a later grant.
        if (releases.number <= session->releases_taken) return OkStatus();
        session->releases_taken = releases.number;
      }
    }
    if (session == nullptr || !session->alive()) return OkStatus();  // it ended meanwhile, and took all along
    for (size_t i = 0; i < kItemsPerLock && next < items; ++i) {
      TakeBackItem(*session, releases, next++, after);
    }
  } while (next < items);
  return OkStatus();
}

StatusOr<std::string> Broker::Export(Connection& connection, const ExportCall& call) {
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("Export", connection, call.token));
  TB_ASSIGN_OR_RETURN(const std::optional<CallAnswer> before, session->calls.Begin(call.call_id));
  if (before && !before->transfer_token.empty()) return before->transfer_token;
  if (before) {
    return InvalidArgumentError(
        fmt::format("Export {}: call {} was another call's", ToString(call.storage), call.call_id));
  }
  StatusOr<std::string> token = [&]() TB_NO_THREAD_SAFETY_ANALYSIS -> StatusOr<std::string> {
    StorageEntry* const entry = Visible(call.storage, session->peer->uid);
    const auto hold = session->holds.find(call.storage.serial);
    if (entry == nullptr || hold == session->holds.end()) {
      return NotFoundError(fmt::format("Export {}: this session does not hold it", ToString(call.storage)));
    }
    if (entry->deleted) {
      return NotFoundError(fmt::format("Export {}: it was deleted", ToString(call.storage)));
    }
    if (call.access > hold->second.access) {
      return PermissionDeniedError(fmt::format(
          "Export {}: held read-only, so it cannot be handed on writable", ToString(call.storage)));
    }
    if (session->transfers >= options_.limits.transfers_per_session) {
      return ResourceExhaustedError(
          fmt::format("Export {}: {} handles of this session are under way and not imported, "
                      "which is the limit; import some, or use a name",
                      ToString(call.storage), session->transfers));
    }
    ++session->transfers;
    ++entry->transfers;
    storages_.Recount(*entry);
    return transfers_.Make(call.storage.serial, call.access, session->id.serial, session->peer->pid);
  }();
  if (token.ok()) {
    CallAnswer answer;
    answer.storage = call.storage.serial;
    answer.transfer_token = *token;
    session->calls.Granted(call.call_id, std::move(answer));
  } else {
    session->calls.Failed(call.call_id);
  }
  return token;
}

StatusOr<Opened> Broker::Import(Connection& connection, const ImportCall& call) {
  After after(this);
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("Import", connection, call.token));
  TB_ASSIGN_OR_RETURN(const std::optional<CallAnswer> before, session->calls.Begin(call.call_id));
  if (before) return Again("Import", *session, *before);
  StatusOr<Opened> opened = [&]() TB_NO_THREAD_SAFETY_ANALYSIS -> StatusOr<Opened> {
    if (call.storage.epoch != options_.epoch) {
      return NotFoundError(fmt::format(
          "Import {}: the handle is of another broker, or of this one before it was started again",
          ToString(call.storage)));
    }
    StorageEntry* const entry = storages_.Find(call.storage.serial);
    if (entry != nullptr && !MaySee(session->peer->uid, entry->storage.domain.uid)) {
      return NoSuchStorage("Import", call.storage);
    }
    TB_ASSIGN_OR_RETURN(const Transfers::Claim claim,
                        transfers_.Take(call.storage.serial, call.transfer_token));
    if (entry == nullptr) {
      return NotFoundError(
          fmt::format("Import {}: handle consumed (or not claimed in time), and nobody holds the Storage "
                      "any more; share by a name for more than one use",
                      ToString(call.storage)));
    }
    if (entry->deleted || (entry->only_quarantined() && !claim.first))
      return NoSuchStorage("Import", call.storage);
    const Opened result =
        GrantTo(*session, *entry, call.call_id, {0, claim.access, entry->header, 0, claim}, after);
    if (claim.first) {
      --entry->transfers;
      if (Session* const sender = sessions_.Find(claim.sender)) --sender->transfers;
      storages_.Recount(*entry);
    }
    return result;
  }();
  if (!opened.ok()) session->calls.Failed(call.call_id);
  return opened;
}

void Broker::RestoreTransfer(const Session& importer, const CallAnswer& answer, After& after) {
  StorageEntry* const entry = storages_.Find(answer.storage);
  if (entry == nullptr || entry->deleted || !importer.holds.contains(answer.storage)) return;
  transfers_.Restore(answer.storage, answer.claim);
  ++entry->transfers;
  storages_.Recount(*entry);
  Session* const sender = sessions_.Find(answer.claim.sender);
  if (sender != nullptr) ++sender->transfers;
  if (sender != nullptr && sender->alive()) return;
  const TimePoint due = DeadlineAfter(clock_.Now(), options_.limits.transfer_ttl);
  transfers_.SenderEnded(answer.claim.sender, due);
  Arm(due, after);
}

void Broker::DropTransfer(const CallAnswer& answer, After& after) {
  StorageEntry* const entry = storages_.Find(answer.storage);
  const StatusOr<Transfers::Claim> claim = transfers_.Take(answer.storage, answer.transfer_token);
  if (entry == nullptr || !claim.ok() || !claim->first) return;
  --entry->transfers;
  if (Session* const sender = sessions_.Find(claim->sender)) --sender->transfers;
  storages_.Recount(*entry);
  FreeIfUnused(*entry, after);
}

void Broker::DropTransfers(StorageEntry& entry, size_t count) {
  for (const uint64_t sender : transfers_.Drop(entry.serial(), count)) {
    --entry.transfers;
    if (Session* const session = sessions_.Find(sender)) --session->transfers;
  }
  storages_.Recount(entry);
}

}  // namespace tensorbroker
