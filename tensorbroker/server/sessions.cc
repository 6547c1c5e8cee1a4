#include "tensorbroker/server/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <tuple>

#include "tensorbroker/base/name.h"

namespace tensorbroker {
namespace {

uint64_t Prefix(std::string_view secret) {
  uint64_t prefix = 0;
  std::memcpy(&prefix, secret.data(), std::min(sizeof prefix, secret.size()));
  return prefix;
}

Status Unknown() {
  return UnauthenticatedError(
      "session: unknown token: the session has ended or never was; open a new one (clients do so by "
      "themselves)");
}

Status CheckLabel(std::string_view label, size_t limit) {
  if (label.size() > limit) {
    return InvalidArgumentError(fmt::format(
        "OpenSession: a label of {} bytes; at most {} are shown: shorten it", label.size(), limit));
  }
  if (HasControlCharacters(label)) {
    return InvalidArgumentError(fmt::format("OpenSession: label {} holds control characters: leave them out",
                                            QuoteForMessage(label)));
  }
  return OkStatus();
}

}  // namespace

Sessions::Sessions(uint64_t epoch, const Limits& limits, uid_t broker_uid, SameProcessFn same_process)
    : epoch_(epoch),
      limits_(limits),
      same_process_(std::move(same_process)),
      pool_(limits.sessions, broker_uid) {}

StatusOr<Session*> Sessions::Open(Connection& connection, std::string_view label, TimePoint now,
                                  int64_t unix_ns) {
  TB_RETURN_IF_ERROR(CheckLabel(label, limits_.label_bytes));
  TB_RETURN_IF_ERROR(pool_.CheckRoom(connection.peer->uid, "OpenSession", "sessions"));
  const uint64_t serial = next_serial_++;
  const auto [it, added] = sessions_.emplace(
      std::piecewise_construct, std::forward_as_tuple(serial),
      std::forward_as_tuple(SessionId{epoch_, serial}, connection.peer, limits_.remembered_calls));
  Session& session = it->second;
  pool_.Add(session.peer->uid);
  do session.token = Token::Random();
  while (!by_token_.emplace(Prefix(session.token.bytes()), &session).second);
  do session.lease_token = Token::Random();
  while (!by_lease_token_.emplace(Prefix(session.lease_token.bytes()), &session).second);
  session.label = label;
  session.since_unix_ns = unix_ns;
  session.bind_by = DeadlineAfter(now, limits_.bind_within);
  connection.session.store(serial, std::memory_order_relaxed);
  return &session;
}

Session* Sessions::ByToken(std::string_view token) const {
  const StatusOr<Token> given = Token::FromBytes(token);
  if (!given.ok()) return nullptr;
  const auto it = by_token_.find(Prefix(token));
  return it != by_token_.end() && it->second->token.Matches(*given) ? it->second : nullptr;
}

StatusOr<Session*> Sessions::Authenticate(Connection& connection, std::string_view token) const {
  Session* const session = ByToken(token);
  if (session == nullptr || !session->alive()) return Unknown();
  // Looked at once a connection, not once a call: neither side's process changes.
  if (connection.session.load(std::memory_order_relaxed) == session->id.serial) return session;
  if (connection.peer != session->peer && !same_process_(*connection.peer, *session->peer)) {
    return UnauthenticatedError(
        "session: the token belongs to another process than this connection; each process opens a session of "
        "its own");
  }
  connection.session.store(session->id.serial, std::memory_order_relaxed);
  return session;
}

StatusOr<Session*> Sessions::BindLease(std::string_view lease_token, const PeerIdentity& peer,
                                       TimePoint now) {
  const StatusOr<Token> given = Token::FromBytes(lease_token);
  const auto it = given.ok() ? by_lease_token_.find(Prefix(lease_token)) : by_lease_token_.end();
  if (it == by_lease_token_.end() || !it->second->lease_token.Matches(*given) || !it->second->alive()) {
    return UnauthenticatedError(
        "lease: unknown token: it was used before, or its session has ended; open a new session");
  }
  Session* const session = it->second;
  if (!same_process_(peer, *session->peer)) {
    return UnauthenticatedError("lease: the token belongs to another process than this connection");
  }
  by_lease_token_.erase(it);
  if (now > session->bind_by) {
    return UnauthenticatedError(
        "lease: the token came too late; open a new session and bind its lease at once");
  }
  session->lease_token = Token();
  session->state = Session::State::kBound;
  return session;
}

StatusOr<Session*> Sessions::FindParent(std::string_view token, uid_t uid) const {
  Session* const session = ByToken(token);
  if (session == nullptr || session->ending || session->peer->uid != uid) return Unknown();
  return session;
}

Session* Sessions::Find(uint64_t serial) {
  const auto it = sessions_.find(serial);
  return it == sessions_.end() ? nullptr : &it->second;
}

Session* Sessions::After(uint64_t serial) {
  const auto it = sessions_.upper_bound(serial);
  return it == sessions_.end() ? nullptr : &it->second;
}

void Sessions::Erase(uint64_t serial) {
  const auto it = sessions_.find(serial);
  if (it == sessions_.end()) return;
  by_token_.erase(Prefix(it->second.token.bytes()));
  // A lease token that is used is void: its slot may be another session's by now.
  const auto lease = by_lease_token_.find(Prefix(it->second.lease_token.bytes()));
  if (lease != by_lease_token_.end() && lease->second == &it->second) by_lease_token_.erase(lease);
  pool_.Remove(it->second.peer->uid);
  sessions_.erase(it);
}

}  // namespace tensorbroker
