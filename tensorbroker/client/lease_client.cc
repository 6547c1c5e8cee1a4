#include "tensorbroker/client/lease_client.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <utility>

#include "tensorbroker/ipc/socket.h"

namespace tensorbroker::internal {

LeaseClient::LeaseClient(Fd socket, std::string broker)
    : socket_(std::move(socket)), broker_(std::move(broker)) {}

void LeaseClient::set_broker(std::string broker) {
  MutexLock lock(mutex_);
  broker_ = std::move(broker);
}

Status LeaseClient::Bind(const Token& lease_token, TimePoint deadline) {
  LeaseFrame request;
  request.type = LeaseType::kBind;
  request.payload = std::string(lease_token.bytes());
  TB_ASSIGN_OR_RETURN(const Answer answer, Ask(std::move(request), deadline));
  if (answer.frame.type == LeaseType::kBound) return OkStatus();
  return InternalError("Connect: the broker answered the lease's binding with something else");
}

StatusOr<Fd> LeaseClient::GetSegment(SegmentId segment, GrantAccess access, int64_t size_bytes,
                                     TimePoint deadline) {
  LeaseFrame request;
  request.type = LeaseType::kGetSegment;
  request.epoch = segment.epoch;
  request.serial = segment.serial;
  request.argument = access == GrantAccess::kReadWrite ? 1 : 0;
  // Where there is no room for the descriptor, do not trouble the broker; another thread may still take the room.
  if (const StatusOr<Fd> room = Dup(fd()); !room.ok())
    return Annotate(room.status(), "Map: no descriptor for a Segment");
  TB_ASSIGN_OR_RETURN(Answer answer, Ask(std::move(request), deadline));
  if (answer.frame.type != LeaseType::kSegment || answer.frame.epoch != segment.epoch ||
      answer.frame.serial != segment.serial) {
    return InternalError(
        fmt::format("Map: the broker answered for another thing than Segment {}", ToString(segment)));
  }
  if (answer.fd_lost) {
    return ResourceExhaustedError(
        fmt::format("Map: the descriptor of Segment {} was lost because this process has none left: raise "
                    "`ulimit -n`, or hold fewer Storages at once",
                    ToString(segment)));
  }
  if (!answer.fd.valid()) {
    return InternalError(fmt::format("Map: no descriptor came with Segment {}", ToString(segment)));
  }
  // A mapping past the file's end would be SIGBUS.
  struct stat info {};
  if (fstat(answer.fd.get(), &info) != 0) return ErrnoStatus(errno, "Map: fstat of a Segment");
  if (info.st_size < size_bytes) {
    return InternalError(fmt::format("Map: Segment {} is {} bytes long, less than the broker's {}",
                                     ToString(segment), info.st_size, size_bytes));
  }
  return std::move(answer.fd);
}

LeaseNotices LeaseClient::ReadNotices() {
  MutexLock lock(mutex_);
  while (!broken()) {
    const StatusOr<bool> read = ReadSome();
    if (!read.ok() || !*read) break;
    TakeFrames(0);
  }
  has_notices_.store(false, std::memory_order_release);
  return std::exchange(notices_, {});
}

StatusOr<LeaseClient::Answer> LeaseClient::Ask(LeaseFrame request, TimePoint deadline) {
  MutexLock lock(mutex_);
  if (broken())
    return UnavailableError(fmt::format("lease: {} is gone; start it again and connect anew", broker_));
  request.request = next_request_++;
  TB_RETURN_IF_ERROR(SendAll(EncodeLeaseFrame(request), deadline));
  while (true) {
    if (std::optional<Answer> answer = TakeFrames(request.request)) {
      if (answer->frame.type == LeaseType::kError) return LeaseErrorStatus(answer->frame);
      return *std::move(answer);
    }
    TB_ASSIGN_OR_RETURN(const bool read, ReadSome());
    if (!read) TB_RETURN_IF_ERROR(Wait(POLLIN, deadline));
  }
}

Status LeaseClient::SendAll(const std::string& bytes, TimePoint deadline) {
  size_t sent = 0;
  while (sent < bytes.size()) {
    const StatusOr<size_t> some =
        SendWithFd(socket_.get(), std::as_bytes(std::span(bytes)).subspan(sent), -1, MSG_DONTWAIT);
    if (!some.ok()) return Break(some.status());
    sent += *some;
    if (*some == 0) {
      // Half a frame must not stay: the next one would be read as its rest.
      if (const Status waited = Wait(POLLOUT, deadline); !waited.ok())
        return sent == 0 ? waited : Break(waited);
    }
  }
  wire_bytes_.fetch_add(static_cast<int64_t>(sent), std::memory_order_relaxed);
  return OkStatus();
}

StatusOr<bool> LeaseClient::ReadSome() {
  std::array<std::byte, 4096> buffer;
  StatusOr<Received> received = RecvWithFd(socket_.get(), buffer, MSG_DONTWAIT);
  if (!received.ok()) return Break(received.status());
  if (received->would_block) return false;
  if (received->closed()) return Break(UnavailableError("it hung up"));
  wire_bytes_.fetch_add(static_cast<int64_t>(received->bytes), std::memory_order_relaxed);
  if (received->fd.valid() || received->fd_lost) fds_.push_back(std::move(received->fd));
  const Status pushed = decoder_.Push({reinterpret_cast<const char*>(buffer.data()), received->bytes});
  if (!pushed.ok()) return Break(pushed);
  return true;
}

std::optional<LeaseClient::Answer> LeaseClient::TakeFrames(uint64_t request) {
  std::optional<Answer> answer;
  while (std::optional<LeaseFrame> frame = decoder_.Pop()) {
    Fd fd;
    bool fd_lost = false;
    if (frame->type == LeaseType::kSegment && !fds_.empty()) {
      fd = std::move(fds_.front());
      fds_.pop_front();
      fd_lost = !fd.valid();
    }
    switch (frame->type) {
      case LeaseType::kSegmentRetired:
        notices_.retired.push_back({frame->epoch, frame->serial});
        break;
      case LeaseType::kFlush:
        notices_.flush = true;
        break;
      case LeaseType::kStopping:
        notices_.stopping = true;
        break;
      default:  // an answer: to the one who waits, or to one who gave up
        if (request != 0 && frame->request == request)
          answer = Answer{*std::move(frame), std::move(fd), fd_lost};
        continue;
    }
    has_notices_.store(true, std::memory_order_release);
  }
  return answer;
}

Status LeaseClient::Break(const Status& cause) {
  broken_.store(true, std::memory_order_release);
  return MakeStatus(cause.code() == StatusCode::kResourceExhausted ? cause.code() : StatusCode::kUnavailable,
                    fmt::format("lease: the session with {} is over: {}; start it again and connect anew",
                                broker_, Message(cause)));
}

Status LeaseClient::Wait(short events, TimePoint deadline) {
  pollfd wait{socket_.get(), events, 0};
  while (true) {
    int timeout_ms = -1;
    if (deadline != TimePoint::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::Real().Now());
      timeout_ms = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1 << 30));
    }
    const int polled = poll(&wait, 1, timeout_ms);
    if (polled == 1) return OkStatus();
    if (polled < 0 && errno != EINTR) return ErrnoStatus(errno, "lease: poll");
    if (polled == 0) {
      return DeadlineExceededError(
          fmt::format("lease: no answer from {} in time; is it stopped, or overloaded?", broker_));
    }
  }
}

}  // namespace tensorbroker::internal
