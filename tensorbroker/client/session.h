// One process and one broker: what all Clients, Tensors and Storages of that pair share.
#ifndef TENSORBROKER_CLIENT_SESSION_H_
#define TENSORBROKER_CLIENT_SESSION_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/client/hold_table.h"
#include "tensorbroker/client/link.h"
#include "tensorbroker/client/locate.h"
#include "tensorbroker/client/options.h"

namespace tensorbroker::internal {

struct OpenedTensor {
  std::shared_ptr<HeldStorage> storage;
  Header header;
};

struct CreatedStorage {
  std::shared_ptr<HeldStorage> storage;
  bool zeroed = false;
};

// Users share it by the pointer that Connect gives. When the last user is gone, a thread of the session sends what
// releases are left, closes it, and ends: a user's destructor never blocks. A forked child goes on with the same object
// and a Link of its own (see fork.h). Thread-safe. Codes of calls are those of client.h and tensor.h.
class Session {
 public:
  // The process's session with the first broker that answers, shared where there is one already.
  static StatusOr<std::shared_ptr<Session>> Connect(const ConnectOptions& options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  StatusOr<CreatedStorage> Create(int64_t size_bytes, const std::optional<Header>& header, Device device,
                                  bool map, TimePoint deadline);
  StatusOr<OpenedTensor> Open(std::string_view name, const OpenOptions& options, TimePoint deadline);
  StatusOr<std::shared_ptr<HeldStorage>> Attach(StorageId id, const OpenOptions& options, TimePoint deadline);
  // The token of a transfer hold on it.
  StatusOr<Token> Export(const HeldStorage& held, TimePoint deadline);
  StatusOr<OpenedTensor> Import(std::string_view handle, TimePoint deadline);
  Status Map(HeldStorage* held, TimePoint deadline);
  // Sends the releases that wait; returns when the broker has them.
  Status Flush(TimePoint deadline) TB_EXCLUDES(mutex_);

  // The live connection, opened where this process has none yet.
  StatusOr<std::shared_ptr<Link>> GetLink(TimePoint deadline) TB_EXCLUDES(mutex_);

  // For HeldStorage: a handle ended. Makes no call.
  void HandleGone(Hold* hold);
  int64_t UseCount(const Hold* hold) { return holds_.UseCount(hold); }

  const std::string& socket() const { return candidate_.path; }
  Duration default_deadline() const { return default_deadline_; }
  TimePoint DefaultDeadline() const { return DeadlineAfter(Clock::Real().Now(), default_deadline_); }
  SessionId id() TB_EXCLUDES(mutex_);
  int64_t wire_bytes() TB_EXCLUDES(mutex_);

 private:
  friend class SessionRegistry;

  Session(SocketCandidate candidate, std::string label, Duration default_deadline);
  std::shared_ptr<Session> user() const { return user_.lock(); }
  // The broker it was connected to is gone.
  bool lost() TB_EXCLUDES(mutex_);
  void LastUserGone() TB_EXCLUDES(mutex_);

  struct Opened {
    std::shared_ptr<Link> link;
    std::vector<Grant> claimed;  // not counted in yet: that is for when nothing can fail any more
  };
  StatusOr<Opened> OpenLink(const std::vector<Token>& ancestors, TimePoint deadline);
  StatusOr<std::vector<Grant>> ClaimInherited(Link& link, const std::vector<Token>& ancestors,
                                              TimePoint deadline);
  // The grant counted in and, where `map`, mapped; else given back.
  StatusOr<std::shared_ptr<HeldStorage>> Take(const Grant& grant, GrantAccess access, bool map,
                                              TimePoint deadline);
  // After a granting call's failure: the broker may have granted.
  void AbandonIfUnknown(const Status& status, uint64_t call_id);
  void Abandon(uint64_t call_id);

  // The session's thread. Sends releases, reads notices, waits for the end of forked children; closes the session.
  static void RunThread(std::shared_ptr<Session> session);
  bool ThreadStep(Link& link) TB_EXCLUDES(mutex_);
  bool SendReleases(Link& link) TB_EXCLUDES(mutex_);  // false: not all got an answer
  void Wake();

  // The fork handlers'.
  void LockForFork() TB_ACQUIRE(mutex_);
  void UnlockInParent() TB_RELEASE(mutex_);
  void UnlockInChild() TB_RELEASE(mutex_);

  const SocketCandidate candidate_;
  const std::string label_;
  const Duration default_deadline_;
  std::weak_ptr<Session> self_;  // owned by the registry's maker and by the thread
  std::weak_ptr<Session> user_;  // shared by users; set once before anyone sees the object
  HoldTable holds_;
  Fd wake_;  // eventfd; replaced in a forked child before anyone uses it

  Mutex mutex_;
  CondVar changed_;
  std::shared_ptr<Link> link_ TB_GUARDED_BY(mutex_);
  bool opening_ TB_GUARDED_BY(mutex_) = false;
  bool closing_ TB_GUARDED_BY(mutex_) = false;  // no user is left
  std::vector<Token> ancestors_
      TB_GUARDED_BY(mutex_);  // sessions of the processes this one was forked from, nearest first
  uint64_t flush_wanted_ TB_GUARDED_BY(mutex_) = 0;  // numbers of Flush calls
  uint64_t flush_done_ TB_GUARDED_BY(mutex_) = 0;
  Status flush_status_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_SESSION_H_
