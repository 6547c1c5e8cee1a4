// All sessions of this process.
#ifndef TENSORBROKER_CLIENT_SESSION_REGISTRY_H_
#define TENSORBROKER_CLIENT_SESSION_REGISTRY_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/locate.h"

namespace tensorbroker::internal {

class Session;

// Process-wide, never destroyed; owns no session. Thread-safe.
class SessionRegistry {
 public:
  // The first call starts gRPC: see Connection::CheckMayInit.
  static SessionRegistry& Get();

  // The session for that socket, unless its broker is gone; else a new one, not connected yet.
  std::shared_ptr<Session> FindOrMake(const SocketCandidate& candidate, const std::string& label,
                                      Duration deadline) TB_EXCLUDES(mutex_);
  // From a Session's destructor.
  void Forget(Session* session) TB_EXCLUDES(mutex_);

 private:
  SessionRegistry() = default;

  // fork.h's hooks.
  static bool Lock();
  static void UnlockInParent();
  static void UnlockInChild();

  Mutex mutex_;
  std::map<std::string, std::weak_ptr<Session>> by_socket_ TB_GUARDED_BY(mutex_);  // users' pointers
  std::vector<Session*> all_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_SESSION_REGISTRY_H_
