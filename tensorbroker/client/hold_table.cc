#include "tensorbroker/client/hold_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace tensorbroker::internal {

namespace {

// Between two attempts at a batch, so that a connection that fails at once is not tried in a loop.
constexpr Duration kResendAfter = std::chrono::milliseconds(10);

size_t Index(GrantAccess access) { return static_cast<size_t>(access); }

// One of the children `alive` (ascending) was forked while `hold` had handles.
bool Seen(const Hold& hold, const std::vector<uint64_t>& alive) {
  const auto first = std::upper_bound(alive.begin(), alive.end(), hold.born);
  return first != alive.end() && *first <= hold.dropped;
}

}  // namespace

StatusOr<std::shared_ptr<HeldStorage>> HoldTable::Add(const std::shared_ptr<Session>& session,
                                                      const Grant& grant, GrantAccess access) {
  MutexLock lock(mutex_);
  const auto [entry, added] = holds_.try_emplace(grant.storage);
  Hold& hold = entry->second;
  if (added) {
    hold.grant = grant;
    hold.born = forks_.count();
    // A handle's end must not need memory: it may be what makes room.
    for (std::vector<StorageId>* list : {&pending_, &put_off_}) {
      if (list->capacity() < holds_.size()) list->reserve(2 * holds_.size());
    }
  } else if (hold.grant.size_bytes != grant.size_bytes || hold.grant.segment != grant.segment ||
             hold.grant.segment_offset_bytes != grant.segment_offset_bytes ||
             hold.grant.segment_size_bytes != grant.segment_size_bytes || hold.grant.device != grant.device) {
    if (!lost_) {
      surplus_.push_back({grant.storage, 1});
      Queue({});
    }
    return InternalError(
        fmt::format("the broker told two different places for Storage {}", ToString(grant.storage)));
  }
  if (!lost_) ++hold.grants;
  if (grant.access == GrantAccess::kReadWrite) hold.grant.access = GrantAccess::kReadWrite;
  if (grant.access == GrantAccess::kReadOnly) access = GrantAccess::kReadOnly;

  std::shared_ptr<HeldStorage> held = hold.handle[Index(access)].lock();
  if (held == nullptr) {
    held = std::make_shared<HeldStorage>(session, &hold, hold.grant, access);
    hold.handle[Index(access)] = held;
    ++hold.handles;
    if (const auto& mapping = hold.mapping[Index(access)]) {
      held->set_data(static_cast<std::byte*>(mapping->data()) + hold.grant.segment_offset_bytes);
    }
  }
  return held;
}

bool HoldTable::HandleGone(Hold* hold) {
  std::vector<std::shared_ptr<Mapping>> unmapped;  // after the lock
  MutexLock lock(mutex_);
  if (--hold->handles > 0) return false;
  hold->dropped = forks_.count();
  if (hold->queued) return false;
  const StorageId id = hold->grant.storage;
  if (hold->grants == 0) {
    // Inherited and never claimed, or lost with its session: nobody to tell.
    DropMappings(*hold, &unmapped);
    holds_.erase(id);
    return false;
  }
  hold->queued = true;
  return Queue(id);
}

int64_t HoldTable::UseCount(const Hold* hold) {
  MutexLock lock(mutex_);
  return hold->handle[0].use_count() + hold->handle[1].use_count();
}

std::shared_ptr<Mapping> HoldTable::FindMapping(Hold* hold, GrantAccess access) {
  MutexLock lock(mutex_);
  std::shared_ptr<Mapping>& mapping = hold->mapping[Index(access)];
  if (mapping != nullptr) return mapping;
  const auto found = mappings_.find({hold->grant.segment, access});
  if (found != mappings_.end()) mapping = found->second.lock();
  return mapping;
}

std::shared_ptr<Mapping> HoldTable::AddMapping(Hold* hold, GrantAccess access,
                                               std::shared_ptr<Mapping> mapping) {
  MutexLock lock(mutex_);
  std::weak_ptr<Mapping>& shared = mappings_[{hold->grant.segment, access}];
  if (std::shared_ptr<Mapping> first = shared.lock()) {
    hold->mapping[Index(access)] = first;
    return first;
  }
  shared = mapping;
  hold->mapping[Index(access)] = mapping;
  return mapping;
}

void HoldTable::SegmentRetired(SegmentId segment) {
  MutexLock lock(mutex_);
  mappings_.erase({segment, GrantAccess::kReadOnly});
  mappings_.erase({segment, GrantAccess::kReadWrite});
}

bool HoldTable::Abandon(uint64_t call_id) {
  MutexLock lock(mutex_);
  if (lost_) return false;
  abandoned_.push_back(call_id);
  return Queue({});
}

// Notes that something waits; `id` none: it is in another list than pending_.
bool HoldTable::Queue(StorageId id) {
  if (id) pending_.push_back(id);
  if (pending_since_ != TimePoint::max()) return false;
  pending_since_ = Clock::Real().Now();
  return true;
}

void HoldTable::DropMappings(Hold& hold, std::vector<std::shared_ptr<Mapping>>* out) {
  for (size_t access = 0; access < hold.mapping.size(); ++access) {
    if (hold.mapping[access] == nullptr) continue;
    out->push_back(std::move(hold.mapping[access]));
    if (out->back().use_count() == 1) mappings_.erase({hold.grant.segment, static_cast<GrantAccess>(access)});
  }
}

ReleaseBatch HoldTable::Take(size_t max) {
  MutexLock lock(mutex_);
  return TakeLocked(max);
}

ReleaseBatch HoldTable::TakeRiders(size_t max) {
  MutexLock lock(mutex_);
  return undelivered_.number == 0 ? TakeLocked(max) : ReleaseBatch{};
}

ReleaseBatch HoldTable::TakeLocked(size_t max) {
  ReleaseBatch batch;
  if (undelivered_.number == 0) {
    std::vector<Returned>& returned = batch.releases.returned;
    const std::vector<uint64_t> alive = forks_.alive_numbers();
    while (!pending_.empty() && returned.size() < max) {
      const StorageId id = pending_.back();
      pending_.pop_back();
      const auto entry = holds_.find(id);
      if (entry == holds_.end()) continue;
      Hold& hold = entry->second;
      if (hold.handles > 0) {  // opened again meanwhile
        hold.queued = false;
        continue;
      }
      DropMappings(hold, &batch.mappings);
      if (Seen(hold, alive)) {
        put_off_.push_back(id);
        put_off_for_ = alive;
        continue;
      }
      if (hold.grants > 0) returned.push_back({id, hold.grants});
      holds_.erase(entry);
    }
    while (!surplus_.empty() && returned.size() < max) {
      returned.push_back(surplus_.back());
      surplus_.pop_back();
    }
    const size_t abandoned = std::min(max, abandoned_.size());
    batch.releases.abandoned_calls.assign(abandoned_.end() - static_cast<ptrdiff_t>(abandoned),
                                          abandoned_.end());
    abandoned_.resize(abandoned_.size() - abandoned);
    if (!batch.empty()) batch.releases.number = ++last_number_;
    undelivered_ = batch.releases;
  } else {
    batch.releases = undelivered_;
  }
  if (pending_.empty() && surplus_.empty() && abandoned_.empty()) pending_since_ = TimePoint::max();
  return batch;
}

void HoldTable::Delivered(uint64_t number) {
  MutexLock lock(mutex_);
  if (number == undelivered_.number) undelivered_ = {};
}

bool HoldTable::NotAnswered(uint64_t number) {
  MutexLock lock(mutex_);
  if (number == 0 || number != undelivered_.number) return false;  // another call delivered it
  const bool idle = pending_since_ == TimePoint::max();
  pending_since_ = Clock::Real().Now() + kResendAfter;
  return idle;
}

void HoldTable::LookAtForks() {
  MutexLock lock(mutex_);
  if (put_off_.empty()) return;
  std::vector<uint64_t> alive = forks_.alive_numbers();
  if (alive == put_off_for_) return;
  put_off_for_ = std::move(alive);
  const auto seen = [&](StorageId id) TB_NO_THREAD_SAFETY_ANALYSIS {
    const auto entry = holds_.find(id);
    return entry != holds_.end() && Seen(entry->second, put_off_for_);
  };
  const auto first = std::partition(put_off_.begin(), put_off_.end(), seen);
  for (auto id = first; id != put_off_.end(); ++id) Queue(*id);
  put_off_.erase(first, put_off_.end());
}

TimePoint HoldTable::pending_since() {
  MutexLock lock(mutex_);
  return pending_since_;
}

bool HoldTable::put_off() {
  MutexLock lock(mutex_);
  return !put_off_.empty();
}

void HoldTable::SessionLost() {
  std::vector<std::shared_ptr<Mapping>> unmapped;  // after the lock
  MutexLock lock(mutex_);
  for (auto entry = holds_.begin(); entry != holds_.end();) {
    Hold& hold = entry->second;
    hold.grants = 0;
    hold.queued = false;
    if (hold.handles > 0) {
      ++entry;
      continue;
    }
    DropMappings(hold, &unmapped);
    entry = holds_.erase(entry);
  }
  pending_.clear();
  put_off_.clear();
  surplus_.clear();
  abandoned_.clear();
  undelivered_ = {};
  lost_ = true;
  pending_since_ = TimePoint::max();
}

std::vector<StorageId> HoldTable::Inherited() {
  MutexLock lock(mutex_);
  std::vector<StorageId> ids;
  for (const auto& [id, hold] : holds_) {
    if (hold.inherited) ids.push_back(id);
  }
  return ids;
}

void HoldTable::Claimed(const std::vector<Grant>& grants) {
  MutexLock lock(mutex_);
  for (const Grant& grant : grants) {
    const auto entry = holds_.find(grant.storage);
    if (entry == holds_.end()) {  // dropped while the claim was under way
      surplus_.push_back({grant.storage, 1});
      Queue({});
      continue;
    }
    Hold& hold = entry->second;
    hold.inherited = false;
    hold.born = forks_.count();
    ++hold.grants;
  }
  for (auto& [id, hold] : holds_) hold.inherited = false;
}

void HoldTable::UnlockInChild() {
  for (auto entry = holds_.begin(); entry != holds_.end();) {
    Hold& hold = entry->second;
    hold.grants = 0;
    hold.queued = false;
    hold.inherited = true;
    entry = hold.handles > 0 ? std::next(entry) : holds_.erase(entry);
  }
  pending_.clear();
  put_off_.clear();
  surplus_.clear();
  abandoned_.clear();
  undelivered_ = {};  // the parent's to send
  last_number_ = 0;   // the child's session counts anew
  lost_ = false;
  pending_since_ = TimePoint::max();
  mutex_.Unlock();
}

}  // namespace tensorbroker::internal
