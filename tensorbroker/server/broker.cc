#include "tensorbroker/server/broker.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/ipc/process.h"
#include "tensorbroker/server/broker_internal.h"

namespace tensorbroker {
namespace {

constexpr size_t kStoragesPerReclaim = 64;
// Timed work done in one go before the lock is let go of.
constexpr size_t kItemsPerTick = 256;

}  // namespace

Broker::After::~After() {
  for (auto& task : tasks_) task();
  Broker* const broker = broker_;
  for (size_t begin = 0; begin < freed_.size(); begin += kStoragesPerReclaim) {
    auto batch = std::make_shared<std::vector<Storage>>();
    for (size_t i = begin; i < std::min(freed_.size(), begin + kStoragesPerReclaim); ++i) {
      batch->push_back(std::move(freed_[i]));
    }
    broker->host_->Reclaim([broker, batch] {
      std::vector<std::pair<Event, uid_t>> events;
      for (Storage& storage : *batch) {
        Event event;
        event.kind = EventKind::kFreed;
        event.storage = storage.id;
        event.size_bytes = storage.size_bytes;
        events.emplace_back(std::move(event), storage.domain.uid);
        storage.block = Block();  // gives the bytes back
      }
      batch->clear();
      After after(broker);
      MutexLock lock(broker->mutex_);
      if (broker->events_.empty()) return;
      for (auto& [event, uid] : events) {
        event.unix_ns = broker->clock_.UnixNanos();
        broker->events_.Emit(std::move(event), uid, after.wakes());
      }
    });
  }
}

Broker::Broker(BrokerOptions options, BlockAllocator* allocator, Budget* budget, BrokerHost* host,
               const Clock& clock)
    : options_(std::move(options)),
      allocator_(allocator),
      budget_(budget),
      host_(host),
      clock_(clock),
      sessions_(options_.epoch, options_.limits, options_.admission.broker_uid, options_.same_process),
      storages_(options_.limits),
      catalog_(options_.limits,
               [this](uint64_t serial) TB_NO_THREAD_SAFETY_ANALYSIS {
                 const Session* const session = sessions_.Find(serial);
                 if (session == nullptr || !session->alive()) return false;
                 // Its process may have ended a moment ago, and nobody has told yet.
                 const Fd& pidfd = session->peer->pidfd;
                 return !pidfd.valid() || !PidfdHasEnded(pidfd.get());
               }),
      waits_(options_.limits, options_.admission.broker_uid),
      events_(options_.limits, options_.admission.broker_uid) {}

StatusOr<Session*> Broker::Authenticate(std::string_view call, Connection& connection,
                                        std::string_view token) {
  if (stopping_) {
    return UnavailableError(
        fmt::format("{}: the broker is about to end; call again once another runs", call));
  }
  StatusOr<Session*> session = sessions_.Authenticate(connection, token);
  if (!session.ok()) return InCall(call, session.status());
  return session;
}

StorageEntry* Broker::Visible(StorageId id, uid_t uid) {
  StorageEntry* const entry = storages_.Find(id, options_.epoch);
  return entry != nullptr && MaySee(uid, entry->storage.domain.uid) ? entry : nullptr;
}

void Broker::Arm(TimePoint when, After& after) {
  if (when >= armed_) return;
  armed_ = when;
  after.Do([host = host_, when] { host->WakeAt(when); });
}

void Broker::EmitStorage(EventKind kind, const StorageEntry& entry, const Session* session, After& after) {
  if (events_.empty()) return;
  Event event;
  event.kind = kind;
  event.unix_ns = clock_.UnixNanos();
  event.storage = entry.storage.id;
  event.size_bytes = entry.storage.size_bytes;
  if (!entry.names.empty()) event.name = entry.names.front();
  if (session != nullptr) {
    event.session = session->id;
    event.pid = session->peer->pid;
    event.label = session->label;
  }
  events_.Emit(std::move(event), entry.storage.domain.uid, after.wakes(), entry.names);
}

void Broker::EmitName(EventKind kind, std::string_view name, std::string_view new_name,
                      const Binding& binding, const Session* session, After& after) {
  if (events_.empty()) return;
  Event event;
  event.kind = kind;
  event.unix_ns = clock_.UnixNanos();
  event.name = name;
  event.new_name = new_name;
  event.version = binding.version;
  if (const StorageEntry* const entry = storages_.Find(binding.storage)) {
    event.storage = entry->storage.id;
    event.size_bytes = entry->storage.size_bytes;
  }
  if (session != nullptr) {
    event.session = session->id;
    event.pid = session->peer->pid;
    event.label = session->label;
  }
  events_.Emit(std::move(event), binding.owner_uid, after.wakes());
}

void Broker::EmitSession(EventKind kind, const Session& session, After& after) {
  if (events_.empty()) return;
  Event event;
  event.kind = kind;
  event.unix_ns = clock_.UnixNanos();
  event.session = session.id;
  event.pid = session.peer->pid;
  event.label = session.label;
  events_.Emit(std::move(event), session.peer->uid, after.wakes());
}

void Broker::FreeIfUnused(StorageEntry& entry, After& after) {
  if (!entry.kept()) after.Free(storages_.Remove(entry));
}

void Broker::RunTimers() {
  bool more = true;
  while (more) {
    After after(this);
    std::vector<uint64_t> unbound;
    {
      MutexLock lock(mutex_);
      const TimePoint now = clock_.Now();
      armed_ = TimePoint::max();
      size_t done = 0;
      while (!to_bind_.empty() && done < kItemsPerTick) {
        const auto [when, serial] = to_bind_.front();
        const Session* const session = sessions_.Find(serial);
        const bool waits =
            session != nullptr && session->state == Session::State::kUnbound && !session->ending;
        if (waits && when > now) break;
        if (waits) unbound.push_back(serial);
        to_bind_.pop_front();
        ++done;
      }
      for (const std::string& name : catalog_.Due(now, kItemsPerTick)) {
        RemoveName(name, nullptr, after);
        ++done;
      }
      for (const uint64_t serial : transfers_.TakeDue(now, kItemsPerTick)) {
        ++done;
        StorageEntry* const entry = storages_.Find(serial);
        if (entry == nullptr) continue;
        --entry->transfers;
        storages_.Recount(*entry);
        FreeIfUnused(*entry, after);
      }
      while (done < kItemsPerTick) {
        std::optional<Waiter> waiter = waits_.TakeDue(now);
        if (!waiter) break;
        ++done;
        if (Session* const session = sessions_.Find(waiter->session)) {
          session->waits.erase(waiter->id);
          session->calls.Failed(waiter->call_id);
        }
        after.Do([waiter = std::move(*waiter)] {
          waiter.done(DeadlineExceededError(fmt::format(
              "AwaitOpen {}: nobody published it within {}; check the name (`tensorctl ls`) and its "
              "producer, or wait longer",
              QuoteForMessage(waiter.name), HumanDuration(waiter.deadline - waiter.since))));
        });
      }
      while (!retries_.empty() && retries_.begin()->first <= now) {
        after.Do(std::move(retries_.begin()->second));
        retries_.erase(retries_.begin());
      }
      more = done >= kItemsPerTick;
      if (!more) {
        TimePoint next = std::min({catalog_.next_due(), transfers_.next_due(), waits_.next_due()});
        if (!to_bind_.empty()) next = std::min(next, to_bind_.front().first + std::chrono::milliseconds(1));
        if (!retries_.empty()) next = std::min(next, retries_.begin()->first);
        Arm(next, after);
      }
    }
    for (const uint64_t serial : unbound) EndSession(serial, "no lease was bound in time");
  }
}

void Broker::SegmentRetired(SegmentId segment) {
  std::vector<uint64_t> sessions;
  {
    MutexLock lock(mutex_);
    const auto it = fetched_.find(segment.serial);
    if (it == fetched_.end()) return;
    sessions = std::move(it->second);
    fetched_.erase(it);
    for (const uint64_t serial : sessions) {
      if (Session* const session = sessions_.Find(serial)) session->fetched.erase(segment.serial);
    }
  }
  for (const uint64_t serial : sessions) host_->SegmentRetired(serial, segment);
}

void Broker::BeginStop() {
  After after(this);
  MutexLock lock(mutex_);
  stopping_ = true;
  while (std::optional<Waiter> waiter = waits_.TakeAny()) {
    after.Do([waiter = std::move(*waiter)] {
      waiter.done(UnavailableError(
          fmt::format("AwaitOpen {}: the broker is about to end", QuoteForMessage(waiter.name))));
    });
  }
  for (auto& [when, retry] : retries_) after.Do(std::move(retry));
  retries_.clear();
  for (auto& [watch, session] : watch_sessions_) events_.Close(watch, after.wakes());
  watch_sessions_.clear();
}

void Broker::Clear() {
  for (;;) {
    uint64_t serial = 0;
    {
      MutexLock lock(mutex_);
      const Session* const session = sessions_.After(0);
      if (session == nullptr) break;
      serial = session->id.serial;
    }
    EndSession(serial, "the broker ends");
  }
  std::vector<Storage> left;  // ends after the lock: each gives its bytes back
  MutexLock lock(mutex_);
  while (StorageEntry* const entry = storages_.After(0)) left.push_back(storages_.Remove(*entry));
}

size_t Broker::storages() const {
  MutexLock lock(mutex_);
  return storages_.size();
}

size_t Broker::sessions() const {
  MutexLock lock(mutex_);
  return sessions_.size();
}

}  // namespace tensorbroker
