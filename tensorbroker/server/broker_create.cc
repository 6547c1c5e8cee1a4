// The Broker's rules for new Storages: checked, counted, reserved without the lock, and undone when the caller has gone.
#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/broker_internal.h"
#include "tensorbroker/server/redact.h"

namespace tensorbroker {
namespace {

// Up to here a reservation takes less time than handing it to another thread and back would.
constexpr int64_t kInlineBytes = int64_t{1} << 20;

}  // namespace

void Broker::Create(Connection& connection, CreateCall call, std::shared_ptr<std::atomic<bool>> gone,
                    CreatedFn done) {
  auto create = std::make_shared<PendingCreate>();
  if (!call.releases.empty()) {
    // The releases that ride along are good even where the creation is not.
    if (Status refused = Release(connection, call.token, call.releases); !refused.ok()) {
      return done(std::move(refused));
    }
  }
  call.releases = {};
  StatusOr<Created> early = CancelledError("");
  {
    MutexLock lock(mutex_);
    early = [&]() TB_NO_THREAD_SAFETY_ANALYSIS -> StatusOr<Created> {
      TB_ASSIGN_OR_RETURN(Session* const session, Authenticate("Create", connection, call.token));
      if (call.device.type != DeviceType::kCpu) {
        return UnimplementedError(fmt::format("Create on {}: this broker has no GPU: {}; create it on cpu",
                                              ToString(call.device), options_.facts.gpu_note));
      }
      if (call.device.index != 0) {
        return InvalidArgumentError(
            fmt::format("Create on {}: the host has the index 0 only", ToString(call.device)));
      }
      if (call.size_bytes < 0) {
        return InvalidArgumentError(
            fmt::format("Create of {} bytes: a size is not negative", call.size_bytes));
      }
      if (call.header) TB_RETURN_IF_ERROR(InCall("Create", CheckFits(*call.header, call.size_bytes)));
      TB_ASSIGN_OR_RETURN(const std::optional<CallAnswer> before, session->calls.Begin(call.call_id));
      if (before) {
        TB_ASSIGN_OR_RETURN(Opened opened, Again("Create", *session, *before));
        return Created{std::move(opened.grant), true};
      }
      if (Status refused = storages_.Announce(session->peer->uid); !refused.ok()) {
        session->calls.Failed(call.call_id);
        return refused;
      }
      create->session = session->id.serial;
      create->domain = {session->peer->uid, session->peer->gid, 0600};
      create->pid = session->peer->pid;
      return CancelledError("");
    }();
  }
  if (create->session == 0) return done(std::move(early));
  create->call = std::move(call);
  create->gone = std::move(gone);
  create->done = std::move(done);
  if (create->call.size_bytes <= kInlineBytes) {
    Allocate(std::move(create));
  } else {
    host_->Reserve([this, create] { Allocate(create); });
  }
}

void Broker::Allocate(std::shared_ptr<PendingCreate> create) {
  AllocateRequest request;
  request.size_bytes = create->call.size_bytes;
  request.domain = create->domain;
  request.cancelled = [gone = create->gone] { return gone->load(std::memory_order_relaxed); };
  StatusOr<Block> block =
      request.cancelled() ? StatusOr<Block>(CancelledError("")) : allocator_->Allocate(request);
  const bool hopeless = create->call.size_bytes > budget_->capacity_bytes();
  if (block.ok() || block.status().code() != StatusCode::kResourceExhausted || create->retried || hopeless) {
    return FinishCreate(*create, std::move(block));
  }
  // Memory is short. Clients may sit on releases that they have not sent: ask, wait, try once more.
  create->retried = true;
  host_->FlushAll();
  {
    After after(this);
    MutexLock lock(mutex_);
    if (!stopping_) {
      const TimePoint when = DeadlineAfter(clock_.Now(), options_.limits.flush_grace);
      retries_.emplace(when, [this, create] { host_->Reserve([this, create] { Allocate(create); }); });
      Arm(when, after);
      return;
    }
  }
  FinishCreate(*create, std::move(block));
}

void Broker::FinishCreate(PendingCreate& create, StatusOr<Block> block) {
  StatusOr<Created> result = AbortedError("Create: the caller has left, or abandoned the call");
  {
    After after(this);
    MutexLock lock(mutex_);
    Session* const session = sessions_.Find(create.session);
    const bool ended = session == nullptr || !session->alive();
    const bool wanted = !ended && !create.gone->load(std::memory_order_relaxed) &&
                        !session->calls.AbandonedMeanwhile(create.call.call_id) && !stopping_;
    if (block.ok() && wanted) {
      StorageEntry entry;
      entry.storage.id = {options_.epoch, next_storage_++};
      entry.storage.size_bytes = create.call.size_bytes;
      entry.storage.device = create.call.device;
      entry.storage.domain = create.domain;
      entry.storage.created_unix_ns = clock_.UnixNanos();
      entry.storage.block = *std::move(block);
      entry.creator_pid = create.pid;
      if (create.call.header) entry.header = std::make_shared<const Header>(*create.call.header);
      StorageEntry& made = *storages_.Insert(std::move(entry));
      storages_.AddGrant(*session, made, GrantAccess::kReadWrite, made.storage.created_unix_ns);
      session->calls.Granted(create.call.call_id, {made.serial(), GrantAccess::kReadWrite, nullptr, 0});
      EmitStorage(EventKind::kCreated, made, session, after);
      result = Created{GrantOf(made, GrantAccess::kReadWrite), true};
    } else {
      storages_.Cancel(create.domain.uid);
      if (session != nullptr) session->calls.Failed(create.call.call_id);
      if (!block.ok() && block.status().code() == StatusCode::kResourceExhausted) {
        result = Shortage(create, block.status());
      } else if (!block.ok() && block.status().code() != StatusCode::kCancelled) {
        result =
            MakeStatus(block.status().code(), fmt::format("Create of {} bytes: {}", create.call.size_bytes,
                                                          WithoutPaths(Message(block.status()))));
      } else if (stopping_) {
        result = UnavailableError("Create: the broker is about to end");
      } else if (ended) {
        result = UnauthenticatedError("Create: the session has ended");
      }
    }
  }
  if (block.ok()) *block = Block();  // gives back what was not taken
  create.done(std::move(result));
}

Status Broker::Shortage(const PendingCreate& create, const Status& cause) {
  const int64_t free_bytes = std::max<int64_t>(budget_->capacity_bytes() - budget_->used_bytes(), 0);
  std::string text = fmt::format("Create of {} bytes ({}): asked {}, free {} of a capacity of {}: {}.",
                                 create.call.size_bytes, HumanBytes(create.call.size_bytes),
                                 HumanBytes(create.call.size_bytes), HumanBytes(free_bytes),
                                 HumanBytes(budget_->capacity_bytes()), WithoutPaths(Message(cause)));
  const Storages::Top top = storages_.Largest(create.domain.uid, 3);
  if (!top.largest.empty()) text += " Top holders:";
  for (const StorageEntry* const entry : top.largest) {
    text += fmt::format(" {} {}", ToString(entry->storage.id), HumanBytes(entry->storage.reserved_bytes()));
    const Session* holder = nullptr;
    for (const uint64_t serial : entry->holders) {
      const Session* const session = sessions_.Find(serial);
      if (MaySee(create.domain.uid, session->peer->uid)) holder = session;
      if (holder != nullptr) break;
    }
    if (holder != nullptr) {
      text += fmt::format(" pid {} ({}{});", holder->peer->pid, holder->label,
                          holder->quarantined() ? ", quarantined" : "");
    } else if (!entry->names.empty()) {
      text += fmt::format(" by the name {};", QuoteForMessage(entry->names.front()));
    } else {
      text += " in flight;";
    }
  }
  if (top.other_uids_bytes > 0) text += fmt::format(" others: {} bytes;", top.other_uids_bytes);
  text += fmt::format(" {}", options_.shortage_hint);
  return ResourceExhaustedError(text);
}

}  // namespace tensorbroker
