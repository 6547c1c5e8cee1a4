#include "tensorbroker/server/storages.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/server/access.h"

namespace tensorbroker {
namespace {

// `holders` more of them, of which `live` live.
void CountHolder(const Session& session, StorageEntry& entry, int holders, int live) {
  entry.live_holders += static_cast<uint32_t>(live);
  if (session.peer->uid == entry.storage.domain.uid) return;
  entry.foreign_holders += static_cast<uint32_t>(holders);
  entry.live_foreign_holders += static_cast<uint32_t>(live);
}

}  // namespace

StorageState StorageEntry::state() const {
  if (deleted) return only_quarantined() ? StorageState::kQuarantined : StorageState::kDeleted;
  if (!names.empty()) return StorageState::kNamed;
  if (live_holders > 0) return StorageState::kHeld;
  if (transfers > 0) return StorageState::kInFlight;
  return StorageState::kQuarantined;
}

Status Storages::Announce(uid_t uid) {
  Account& account = accounts_[uid];
  if (account.by_size.size() + account.announced >= limits_.storages_per_uid) {
    return ResourceExhaustedError(fmt::format(
        "Create: uid {} has {} Storages already, which is its limit; drop some (`tensorctl ls` lists them)",
        uid, limits_.storages_per_uid));
  }
  ++account.announced;
  return OkStatus();
}

void Storages::Cancel(uid_t uid) { --accounts_[uid].announced; }

StorageEntry* Storages::Insert(StorageEntry entry) {
  Account& account = accounts_[entry.storage.domain.uid];
  --account.announced;
  const uint64_t serial = entry.serial();
  const int64_t bytes = entry.storage.reserved_bytes();
  account.by_size.emplace(bytes, serial);
  account.bytes += bytes;
  bytes_ += bytes;
  if (const auto& segment = entry.storage.block.segment())
    by_segment_.emplace(segment->info().id.serial, serial);
  return &entries_.emplace(serial, std::move(entry)).first->second;
}

Storage Storages::Remove(StorageEntry& entry) {
  const auto account = accounts_.find(entry.storage.domain.uid);
  const uint64_t serial = entry.serial();
  const int64_t bytes = entry.storage.reserved_bytes();
  account->second.by_size.erase({bytes, serial});
  account->second.bytes -= bytes;
  bytes_ -= bytes;
  if (account->second.by_size.empty() && account->second.announced == 0) accounts_.erase(account);
  if (const auto& segment = entry.storage.block.segment())
    by_segment_.erase({segment->info().id.serial, serial});
  if (entry.counted_as_quarantined) quarantined_bytes_ -= bytes;
  Storage storage = std::move(entry.storage);
  entries_.erase(serial);
  return storage;
}

StorageEntry* Storages::Find(StorageId id, uint64_t epoch) {
  return id.epoch == epoch ? Find(id.serial) : nullptr;
}

StorageEntry* Storages::Find(uint64_t serial) {
  const auto it = entries_.find(serial);
  return it == entries_.end() ? nullptr : &it->second;
}

StorageEntry* Storages::After(uint64_t serial) {
  const auto it = entries_.upper_bound(serial);
  return it == entries_.end() ? nullptr : &it->second;
}

size_t Storages::CountOf(uid_t uid) const {
  const auto it = accounts_.find(uid);
  return it == accounts_.end() ? 0 : it->second.by_size.size();
}

StatusOr<std::shared_ptr<Segment>> Storages::SegmentFor(const Session& session, SegmentId id,
                                                        GrantAccess access) {
  bool read_only = false;
  for (auto it = by_segment_.lower_bound({id.serial, 0}); it != by_segment_.end() && it->first == id.serial;
       ++it) {
    const StorageEntry& entry = entries_.at(it->second);
    if (entry.storage.block.segment()->info().id != id) break;
    const auto hold = session.holds.find(it->second);
    if (hold == session.holds.end()) continue;
    if (access == GrantAccess::kReadWrite && hold->second.access == GrantAccess::kReadOnly) {
      read_only = true;
      continue;
    }
    return entry.storage.block.segment();
  }
  if (read_only) {
    return PermissionDeniedError(
        fmt::format("GetSegment {}: held read-only; open the tensor writable to write to it", ToString(id)));
  }
  return NotFoundError(fmt::format("GetSegment {}: this session holds no Storage in it", ToString(id)));
}

bool Storages::AddGrant(Session& session, StorageEntry& entry, GrantAccess access, int64_t unix_ns) {
  const auto [it, made] = session.holds.try_emplace(entry.serial());
  Hold& hold = it->second;
  ++hold.grants;
  hold.access = std::max(hold.access, access);
  if (!made) return false;
  hold.since_unix_ns = unix_ns;
  session.held_bytes += entry.storage.size_bytes;
  const uint64_t serial = session.id.serial;
  entry.holders.insert(std::lower_bound(entry.holders.begin(), entry.holders.end(), serial), serial);
  CountHolder(session, entry, 1, 1);
  Recount(entry);
  return true;
}

bool Storages::ReturnGrants(Session& session, StorageEntry& entry, uint64_t grants) {
  const auto it = session.holds.find(entry.serial());
  if (it == session.holds.end()) return false;
  if (it->second.grants > grants) {
    it->second.grants -= grants;
    return false;
  }
  EndHold(session, entry);
  return true;
}

void Storages::EndHold(Session& session, StorageEntry& entry) {
  const auto hold = session.holds.find(entry.serial());
  if (hold == session.holds.end()) return;
  CountHolder(session, entry, -1, hold->second.quarantined ? 0 : -1);
  session.holds.erase(hold);
  session.held_bytes -= entry.storage.size_bytes;
  const auto it = std::lower_bound(entry.holders.begin(), entry.holders.end(), session.id.serial);
  entry.holders.erase(it);
  if (entry.holders.empty()) entry.holders.shrink_to_fit();
  Recount(entry);
}

void Storages::QuarantineHold(Session& session, StorageEntry& entry) {
  const auto hold = session.holds.find(entry.serial());
  if (hold == session.holds.end() || std::exchange(hold->second.quarantined, true)) return;
  CountHolder(session, entry, 0, -1);
  Recount(entry);
}

void Storages::Recount(StorageEntry& entry) {
  const bool quarantined = entry.only_quarantined();
  if (quarantined == entry.counted_as_quarantined) return;
  entry.counted_as_quarantined = quarantined;
  quarantined_bytes_ += quarantined ? entry.storage.reserved_bytes() : -entry.storage.reserved_bytes();
}

Storages::Top Storages::Largest(uid_t uid, size_t count) const {
  Top top;
  std::vector<std::pair<int64_t, uint64_t>> found;
  for (const auto& [owner, account] : accounts_) {
    if (!MaySee(uid, owner)) {
      top.other_uids_bytes += account.bytes;
      continue;
    }
    size_t taken = 0;
    for (auto it = account.by_size.rbegin(); it != account.by_size.rend() && taken < count; ++it, ++taken) {
      found.push_back(*it);
    }
  }
  std::sort(found.rbegin(), found.rend());
  if (found.size() > count) found.resize(count);
  for (const auto& [bytes, serial] : found) top.largest.push_back(&entries_.at(serial));
  return top;
}

}  // namespace tensorbroker
