#include "tensorbroker/client/session_registry.h"

#include <algorithm>

#include "tensorbroker/client/connection.h"
#include "tensorbroker/client/fork.h"
#include "tensorbroker/client/session.h"

namespace tensorbroker::internal {

SessionRegistry& SessionRegistry::Get() {
  static auto* registry = [] {
    Connection::InitLibrary();
    InstallHandlers(
        {&SessionRegistry::Lock, &SessionRegistry::UnlockInParent, &SessionRegistry::UnlockInChild});
    return new SessionRegistry;
  }();
  return *registry;
}

std::shared_ptr<Session> SessionRegistry::FindOrMake(const SocketCandidate& candidate,
                                                     const std::string& label, Duration deadline) {
  std::shared_ptr<Session> former;  // its end, if it comes to that, is after the lock's
  MutexLock lock(mutex_);
  std::weak_ptr<Session>& entry = by_socket_[candidate.path];
  former = entry.lock();
  if (former != nullptr && !former->lost()) return former;

  std::shared_ptr<Session> owner(new Session(candidate, label, deadline));
  owner->self_ = owner;
  // What users share: its last copy's end closes the session. The thread, if there is one, owns it from then on.
  std::shared_ptr<Session> user(owner.get(), [owner](Session* session) mutable {
    session->LastUserGone();
    owner.reset();
  });
  user->user_ = user;
  all_.push_back(user.get());
  Forks::Get().KeepSpare();
  entry = user;
  return user;
}

void SessionRegistry::Forget(Session* session) {
  MutexLock lock(mutex_);
  all_.erase(std::remove(all_.begin(), all_.end(), session), all_.end());
  if (all_.empty()) Forks::Get().DropSpare();
  for (auto entry = by_socket_.begin(); entry != by_socket_.end();) {
    entry = entry->second.expired() ? by_socket_.erase(entry) : std::next(entry);
  }
}

bool SessionRegistry::Lock() TB_NO_THREAD_SAFETY_ANALYSIS {
  SessionRegistry& registry = Get();
  Connection::StopTimers();
  registry.mutex_.Lock();
  for (Session* session : registry.all_) session->LockForFork();
  return !registry.all_.empty();
}

void SessionRegistry::UnlockInParent() TB_NO_THREAD_SAFETY_ANALYSIS {
  SessionRegistry& registry = Get();
  for (Session* session : registry.all_) session->UnlockInParent();
  registry.mutex_.Unlock();
  Connection::StartTimers();
}

void SessionRegistry::UnlockInChild() TB_NO_THREAD_SAFETY_ANALYSIS {
  SessionRegistry& registry = Get();
  for (Session* session : registry.all_) session->UnlockInChild();
  registry.mutex_.Unlock();
}

}  // namespace tensorbroker::internal
