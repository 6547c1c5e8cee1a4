// The client's end of the lease: Segments' descriptors, and the broker's notices.
#ifndef TENSORBROKER_CLIENT_LEASE_CLIENT_H_
#define TENSORBROKER_CLIENT_LEASE_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/lease.h"
#include "tensorbroker/proto/records.h"

namespace tensorbroker::internal {

struct LeaseNotices {
  std::vector<SegmentId> retired;
  bool flush = false;
  bool stopping = false;
};

// Owns the connection; its end is the session's end. A request is written and its answer read by the calling thread
// itself, one at a time; what comes while nobody asks is read by ReadNotices. Thread-safe.
class LeaseClient {
 public:
  // `socket` is connected; `broker` names it in messages.
  LeaseClient(Fd socket, std::string broker);

  // kUnauthenticated   the broker does not know the token
  // kUnavailable       the lease broke: the broker is gone
  // kDeadlineExceeded  no answer
  Status Bind(const Token& lease_token, TimePoint deadline) TB_EXCLUDES(mutex_);
  // The Segment's descriptor: at least `size_bytes` long.
  // kPermissionDenied, kNotFound  the broker's refusal
  // kResourceExhausted            this process has no descriptor left: names the limit
  // kInternal                     the Segment is shorter than the broker said
  StatusOr<Fd> GetSegment(SegmentId segment, GrantAccess access, int64_t size_bytes, TimePoint deadline)
      TB_EXCLUDES(mutex_);

  // What was noticed since the last call, read without waiting.
  LeaseNotices ReadNotices() TB_EXCLUDES(mutex_);
  // True where a request read a notice on the way, so that whoever handles notices should be woken.
  bool has_notices() const { return has_notices_.load(std::memory_order_acquire); }

  // The broker hung up, or spoke no lease. For good.
  bool broken() const { return broken_.load(std::memory_order_acquire); }
  int fd() const { return socket_.get(); }
  // Bytes of all frames sent and received.
  int64_t wire_bytes() const { return wire_bytes_.load(std::memory_order_relaxed); }
  // For messages: "the broker at /run/..." or "the broker (pid 7) at ...".
  void set_broker(std::string broker) TB_EXCLUDES(mutex_);

 private:
  struct Answer {
    LeaseFrame frame;
    Fd fd;
    bool fd_lost = false;
  };
  StatusOr<Answer> Ask(LeaseFrame request, TimePoint deadline) TB_EXCLUDES(mutex_);
  Status SendAll(const std::string& bytes, TimePoint deadline) TB_REQUIRES(mutex_);
  // Reads what is there; false: nothing.
  StatusOr<bool> ReadSome() TB_REQUIRES(mutex_);
  // Takes decoded frames; the one that answers `request` is returned.
  std::optional<Answer> TakeFrames(uint64_t request) TB_REQUIRES(mutex_);
  Status Break(const Status& cause) TB_REQUIRES(mutex_);
  Status Wait(short events, TimePoint deadline) TB_REQUIRES(mutex_);

  Fd socket_;
  std::atomic<bool> broken_{false};
  std::atomic<bool> has_notices_{false};
  std::atomic<int64_t> wire_bytes_{0};

  Mutex mutex_;
  std::string broker_ TB_GUARDED_BY(mutex_);
  LeaseDecoder decoder_ TB_GUARDED_BY(mutex_);
  // Came, in order, for kSegment frames not decoded yet; invalid: lost for want of room.
  std::deque<Fd> fds_ TB_GUARDED_BY(mutex_);
  LeaseNotices notices_ TB_GUARDED_BY(mutex_);
  uint64_t next_request_ TB_GUARDED_BY(mutex_) = 1;
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_LEASE_CLIENT_H_
