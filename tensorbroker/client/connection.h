// The broker's calls as plain functions. Of the client's files, connection.cc and pending_call.{h,cc} alone
// know gRPC.
//
// Each call blocks its thread until the answer, or until its deadline. gRPC's own deadlines and threads play no part in
// it: the calling thread drives its call and watches its clock itself, so that deadlines hold in a forked child too,
// where gRPC's timer thread does not exist.
#ifndef TENSORBROKER_CLIENT_CONNECTION_H_
#define TENSORBROKER_CLIENT_CONNECTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/options.h"
#include "tensorbroker/proto/calls.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker::internal {

// True where `status`, the failure of a granting call, does not say what the broker did: it may have granted. What the
// broker itself answered says it.
bool MayHaveGranted(const Status& status);

struct OpenedName {
  Grant grant;
  Header header;
  uint64_t version = 0;
};

// Ends a Watch from another thread. Must outlive the Watch that it was given to. Thread-safe.
class WatchCanceller {
 public:
  WatchCanceller();
  ~WatchCanceller();
  // The Watch returns soon, with OK. Also where it has not begun. Does nothing more once the process is exiting.
  void Cancel();

 private:
  friend class Connection;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One channel to one broker, and the session that OpenSession opened on it. Thread-safe. Belongs to the process that
// made it: a forked child leaks it and makes another.
//
// Besides the broker's own codes, each call gives
// kUnavailable       the broker is gone, or the process is exiting
// kDeadlineExceeded  no answer by `deadline`: names the call and the broker's pid
class Connection {
 public:
  // kResourceExhausted  gRPC has not started yet, and would find no descriptors: it would end the process
  static Status CheckMayInit();
  // Once a process, before handlers of pthread_atfork and atexit that must run before gRPC's.
  static void InitLibrary();
  // Around fork(2), while no thread of ours is inside gRPC: stops gRPC's timer thread, and starts it again. A forked
  // child starts its own with its first Connection.
  static void StopTimers();
  static void StartTimers();

  // Connects at the first call.
  // kUnavailable        the process is exiting
  // kResourceExhausted  it has no descriptors left
  static StatusOr<std::unique_ptr<Connection>> Make(const std::string& socket);
  ~Connection();

  // kFailedPrecondition  a broker of another protocol version
  // kPermissionDenied    not for this uid
  StatusOr<OpenedSession> OpenSession(const std::string& label, TimePoint deadline);
  Status CloseSession(TimePoint deadline);

  StatusOr<Created> Create(CreateCall call, TimePoint deadline);  // fills in the token
  StatusOr<OpenedName> Open(uint64_t call_id, std::string_view name, GrantAccess access, TimePoint deadline);
  // Waits for the name for `timeout` (kForever: for ever).
  StatusOr<OpenedName> AwaitOpen(uint64_t call_id, std::string_view name, GrantAccess access,
                                 Duration timeout, TimePoint deadline);
  StatusOr<Grant> Attach(uint64_t call_id, StorageId storage, GrantAccess access, TimePoint deadline);
  StatusOr<std::vector<Grant>> ClaimInherited(const Token& parent, const std::vector<StorageId>& storages,
                                              TimePoint deadline);
  Status Release(const Releases& releases, TimePoint deadline);

  StatusOr<Token> Export(uint64_t call_id, StorageId storage, GrantAccess access, TimePoint deadline);
  StatusOr<Grant> Import(uint64_t call_id, StorageId storage, const Token& transfer, TimePoint deadline);

  StatusOr<uint64_t> Publish(std::string_view name, StorageId storage, const Header& header,
                             const PublishOptions& options, TimePoint deadline);
  Status Unpublish(std::string_view name, TimePoint deadline);
  Status Rename(std::string_view from, std::string_view to, bool replace, TimePoint deadline);
  StatusOr<int64_t> Delete(StorageId storage, TimePoint deadline);

  // Streams: `patience` is how long to wait for each next message.
  Status List(const ListOptions& options, Duration patience, const std::function<void(StorageRecord)>& visit);
  StatusOr<std::vector<SessionRecord>> ListSessions(bool held, Duration patience);
  StatusOr<StorageRecord> Stat(std::string_view name, TimePoint deadline);
  StatusOr<StorageRecord> Stat(StorageId storage, TimePoint deadline);
  StatusOr<BrokerInfo> Info(TimePoint deadline);
  StatusOr<int32_t> Stop(TimePoint deadline);
  // OK when `visit` gave false, `end` passed or `canceller` (may be null) was used. The first answer must come within
  // `patience`.
  Status Watch(std::string_view prefix, Duration patience, TimePoint end, WatchCanceller* canceller,
               const std::function<void()>& on_ready, const std::function<bool(const Event&)>& visit);

  // Serialised bytes of all requests sent and replies received, without HTTP/2's and gRPC's framing.
  int64_t wire_bytes() const;
  int32_t broker_pid() const;

 private:
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_CONNECTION_H_
