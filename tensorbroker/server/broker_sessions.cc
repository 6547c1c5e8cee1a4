// The Broker's rules for sessions: how they begin and how each of their ends is carried out.
#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/log.h"
#include "tensorbroker/base/name.h"
#include "tensorbroker/base/utf8.h"
#include "tensorbroker/base/version.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/broker_internal.h"

namespace tensorbroker {

StatusOr<OpenedSession> Broker::OpenSession(Connection& connection, uint32_t protocol_version,
                                            std::string_view client_version, std::string_view label) {
  TB_RETURN_IF_ERROR(CheckAdmitted(options_.admission, *connection.peer));
  constexpr auto kSpoken = static_cast<uint32_t>(kProtocolVersion);
  if (protocol_version != kSpoken) {
    const bool older = protocol_version < kSpoken;
    return FailedPreconditionError(fmt::format(
        "OpenSession: the client ({}) speaks protocol {}, this broker ({}) speaks {}: the {} is older; "
        "update it",
        QuoteForMessage(client_version), protocol_version, kVersion, kSpoken, older ? "client" : "broker"));
  }
  After after(this);
  MutexLock lock(mutex_);
  if (stopping_)
    return UnavailableError("OpenSession: the broker is about to end; connect again once another runs");
  TB_ASSIGN_OR_RETURN(Session* const session,
                      sessions_.Open(connection, label, clock_.Now(), clock_.UnixNanos()));
  to_bind_.emplace_back(session->bind_by, session->id.serial);
  Arm(session->bind_by + std::chrono::milliseconds(1), after);
  EmitSession(EventKind::kSessionOpened, *session, after);
  after.Do([host = host_, serial = session->id.serial, peer = session->peer] {
    host->SessionOpened(serial, peer);
  });
  Log(LogLevel::kInfo, "session_opened",
      {{"session", session->id.serial},
       {"pid", session->peer->pid},
       {"uid", session->peer->uid},
       {"label", session->label},
       {"client", Utf8Prefix(client_version, 32)}});
  OpenedSession opened;
  opened.id = session->id;
  opened.token = session->token;
  opened.lease_token = session->lease_token;
  opened.instance = options_.facts.instance;
  opened.epoch = options_.epoch;
  opened.protocol_version = kSpoken;
  opened.broker_version = kVersion;
  opened.broker_pid = options_.facts.pid;
  return opened;
}

Status Broker::CloseSession(Connection& connection, std::string_view token) {
  uint64_t serial = 0;
  {
    MutexLock lock(mutex_);
    TB_ASSIGN_OR_RETURN(const Session* const session, Authenticate("CloseSession", connection, token));
    serial = session->id.serial;
  }
  EndSession(serial, "it was closed");
  return OkStatus();
}

StatusOr<uint64_t> Broker::BindLease(std::string_view lease_token, const PeerIdentity& peer) {
  MutexLock lock(mutex_);
  TB_ASSIGN_OR_RETURN(const Session* const session, sessions_.BindLease(lease_token, peer, clock_.Now()));
  return session->id.serial;
}

StatusOr<std::shared_ptr<Segment>> Broker::FetchSegment(uint64_t serial, SegmentId id, GrantAccess access) {
  MutexLock lock(mutex_);
  Session* const session = sessions_.Find(serial);
  if (session == nullptr || session->ending) return UnauthenticatedError("GetSegment: the session has ended");
  TB_ASSIGN_OR_RETURN(std::shared_ptr<Segment> segment, storages_.SegmentFor(*session, id, access));
  if (session->fetched.insert(id.serial).second) {
    std::vector<uint64_t>& sessions = fetched_[id.serial];
    sessions.insert(std::lower_bound(sessions.begin(), sessions.end(), serial), serial);
  }
  return segment;
}

void Broker::LeaseClosed(uint64_t session) { EndSession(session, "its lease was hung up"); }

void Broker::ProcessEnded(uint64_t serial) {
  bool bound = false;
  {
    MutexLock lock(mutex_);
    const Session* const session = sessions_.Find(serial);
    if (session == nullptr) return;
    bound = session->state == Session::State::kBound;
  }
  if (bound) {
    Quarantine(serial);
  } else {
    EndSession(serial, "its process ended");
  }
}

void Broker::EndCalls(Session& session, After& after) {
  for (const uint64_t id : session.waits) {
    std::optional<Waiter> waiter = waits_.Take(id);
    if (!waiter) continue;
    after.Do([waiter = std::move(*waiter)] {
      waiter.done(UnauthenticatedError("AwaitOpen: the session has ended"));
    });
  }
  session.waits.clear();
  for (const uint64_t watch : session.watches) {
    events_.Close(watch, after.wakes());
    watch_sessions_.erase(watch);
  }
  session.watches.clear();
  const TimePoint due = DeadlineAfter(clock_.Now(), options_.limits.transfer_ttl);
  transfers_.SenderEnded(session.id.serial, due);
  if (session.transfers > 0) Arm(due, after);
}

void Broker::RemoveNamesOf(uint64_t session) {
  for (size_t found = kItemsPerLock; found == kItemsPerLock;) {
    After after(this);
    MutexLock lock(mutex_);
    const std::vector<std::string> names = catalog_.OfSession(session, kItemsPerLock);
    found = names.size();
    for (const std::string& name : names) RemoveName(name, sessions_.Find(session), after);
  }
}

void Broker::Quarantine(uint64_t serial) {
  std::vector<uint64_t> held;
  {
    After after(this);
    MutexLock lock(mutex_);
    Session* const session = sessions_.Find(serial);
    if (session == nullptr || session->ending || session->quarantined()) return;
    session->state = Session::State::kQuarantined;
    EndCalls(*session, after);
    held.reserve(session->holds.size());
    for (const auto& [storage, hold] : session->holds) held.push_back(storage);
    Log(LogLevel::kInfo, "session_quarantined",
        {{"session", serial},
         {"pid", session->peer->pid},
         {"storages", session->holds.size()},
         {"why", "its process ended, its lease is open in a child"}});
  }
  RemoveNamesOf(serial);
  for (size_t begin = 0; begin < held.size(); begin += kItemsPerLock) {
    After after(this);
    MutexLock lock(mutex_);
    Session* const session = sessions_.Find(serial);
    if (session == nullptr || session->ending) return;
    for (size_t i = begin; i < std::min(held.size(), begin + kItemsPerLock); ++i) {
      StorageEntry* const entry = storages_.Find(held[i]);
      if (entry == nullptr) continue;
      storages_.QuarantineHold(*session, *entry);
      EmitStorage(EventKind::kReleased, *entry, session, after);
    }
  }
}

void Broker::EndSession(uint64_t serial, std::string_view why) {
  {
    After after(this);
    MutexLock lock(mutex_);
    Session* const session = sessions_.Find(serial);
    if (session == nullptr || session->ending) return;
    const bool was_quarantined = session->quarantined();
    session->ending = true;
    if (!was_quarantined) EndCalls(*session, after);
    Log(LogLevel::kInfo, "session_ended",
        {{"session", serial},
         {"pid", session->peer->pid},
         {"label", session->label},
         {"storages", session->holds.size()},
         {"bytes", session->held_bytes},
         {"why", why}});
  }
  RemoveNamesOf(serial);
  for (bool more = true; more;) {
    After after(this);
    MutexLock lock(mutex_);
    Session& session = *sessions_.Find(serial);
    for (size_t i = 0; i < kItemsPerLock && !session.holds.empty(); ++i) {
      StorageEntry& entry = *storages_.Find(session.holds.begin()->first);
      const bool quarantined = session.holds.begin()->second.quarantined;
      storages_.EndHold(session, entry);
      if (!quarantined) EmitStorage(EventKind::kReleased, entry, &session, after);
      FreeIfUnused(entry, after);
    }
    for (size_t i = 0; i < kItemsPerLock && !session.fetched.empty(); ++i) {
      const uint64_t segment = *session.fetched.begin();
      session.fetched.erase(session.fetched.begin());
      const auto it = fetched_.find(segment);
      if (it == fetched_.end()) continue;
      const auto place = std::lower_bound(it->second.begin(), it->second.end(), serial);
      if (place != it->second.end() && *place == serial) it->second.erase(place);
      if (it->second.empty()) fetched_.erase(it);
    }
    more = !session.holds.empty() || !session.fetched.empty();
    if (more) continue;
    EmitSession(EventKind::kSessionEnded, session, after);
    sessions_.Erase(serial);
    after.Do([host = host_, serial] { host->SessionEnded(serial); });
  }
}

}  // namespace tensorbroker
