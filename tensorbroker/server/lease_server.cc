#include "tensorbroker/server/lease_server.h"

#include <linux/sockios.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cstddef>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tensorbroker/base/log.h"
#include "tensorbroker/ipc/socket.h"
#include "tensorbroker/server/redact.h"

namespace tensorbroker {
namespace {

// True where the peer has read all that was sent. The kernel counts what is unread with its own overhead, never less than
// the bytes; as it lets go of the last of it, it counts one byte for a moment.
bool HasReadAll(int socket) {
  int unread = 0;
  return ioctl(socket, SIOCOUTQ, &unread) != 0 || unread < static_cast<int>(kLeaseHeaderBytes);
}

}  // namespace

struct LeaseServer::Lease {
  Fd socket;
  PeerIdentity peer;
  uint64_t session = 0;  // 0: not bound yet
  EventLoop::TimerId timer = 0;
  LeaseDecoder decoder;
  std::string out;                    // what is left of the frame under way
  Fd out_fd;                          // goes with its first byte
  uint64_t out_request = 0;           // what a frame with out_fd answers
  bool descriptor_unread = false;     // a descriptor was sent, and not all was read when last looked at
  std::optional<LeaseFrame> request;  // waits for that
  uint32_t interest = EPOLLIN | EPOLLRDHUP;
  std::deque<SegmentId> retired;
  bool flush = false;
  bool stopping = false;
};

LeaseServer::~LeaseServer() { Clear(); }

void LeaseServer::Accept(Fd socket, PeerIdentity peer) {
  auto lease = std::make_shared<Lease>();
  const int number = socket.get();
  lease->socket = std::move(socket);
  lease->peer = std::move(peer);
  const std::weak_ptr<Lease> weak = lease;
  const Status added = loop_->Add(number, lease->interest, [this, weak](uint32_t events) {
    if (const LeasePtr found = weak.lock()) OnEvents(found, events);
  });
  if (!added.ok()) {
    Log(LogLevel::kError, "lease_refused", {{"cause", Message(added)}, {"peer", lease->peer.ToString()}});
    return;
  }
  lease->timer = loop_->RunAfter(bind_within_, [this, weak] {
    const LeasePtr late = weak.lock();
    if (late == nullptr) return;
    late->timer = 0;
    Log(LogLevel::kInfo, "connection_closed", {{"cause", "bound no lease"}, {"peer", late->peer.ToString()}});
    End(late);
  });
  ++counts_[lease->peer.uid];
  leases_.emplace(number, std::move(lease));
}

void LeaseServer::OnEvents(const LeasePtr& lease, uint32_t events) {
  if (!lease->socket.valid()) return;
  // A peer that hung up reads no answer: what it asked for last does not matter.
  if ((events & (EPOLLHUP | EPOLLERR)) != 0) return End(lease);
  if ((events & (EPOLLIN | EPOLLRDHUP)) != 0 && lease->out.empty() && !lease->request && !Read(lease))
    return End(lease);
  if (!Pump(lease)) End(lease);
}

bool LeaseServer::Read(const LeasePtr& lease) {
  std::array<std::byte, 4096> buffer;
  StatusOr<Received> received = RecvWithFd(lease->socket.get(), buffer, MSG_DONTWAIT);
  if (!received.ok() || received->closed()) return false;
  if (received->fd.valid() || received->fd_lost) {
    Log(LogLevel::kWarning, "lease_ended",
        {{"cause", "the client sent a descriptor"}, {"session", lease->session}});
    return false;
  }
  if (received->would_block) return true;
  const Status good = lease->decoder.Push({reinterpret_cast<const char*>(buffer.data()), received->bytes});
  if (good.ok()) return true;
  Log(LogLevel::kWarning, "lease_ended", {{"cause", Message(good)}, {"session", lease->session}});
  return false;
}

bool LeaseServer::Pump(const LeasePtr& lease) {
  for (;;) {
    if (!lease->out.empty()) {
      if (!Write(*lease)) return false;
      if (!lease->out.empty()) break;
    }
    if (NextNotice(*lease)) continue;
    if (!lease->request) lease->request = lease->decoder.Pop();
    if (!lease->request) break;
    if (lease->descriptor_unread && !HasReadAll(lease->socket.get())) break;
    lease->descriptor_unread = false;
    if (!Answer(lease, *std::exchange(lease->request, std::nullopt))) return false;
  }
  // While an answer waits for the client to read, none of its requests is taken. A socket that takes more bytes tells by
  // its edge that some were read.
  uint32_t wanted = EPOLLIN | EPOLLRDHUP;
  if (!lease->out.empty()) {
    wanted = EPOLLOUT;
  } else if (lease->request) {
    wanted = EPOLLOUT | EPOLLET;
  }
  if (wanted != lease->interest) {
    lease->interest = wanted;
    if (!loop_->Modify(lease->socket.get(), wanted).ok()) return false;
  }
  return true;
}

bool LeaseServer::Write(Lease& lease) {
  while (!lease.out.empty()) {
    const auto bytes = std::as_bytes(std::span(lease.out));
    const StatusOr<size_t> sent =
        SendWithFd(lease.socket.get(), bytes, lease.out_fd.valid() ? lease.out_fd.get() : -1, MSG_DONTWAIT);
    if (sent.status().code() == StatusCode::kResourceExhausted && lease.out_fd.valid()) {
      // Other processes of this uid count too: this client has done nothing wrong, and its session goes on.
      Log(LogLevel::kWarning, "segment_not_sent",
          {{"session", lease.session}, {"cause", Message(sent.status())}});
      lease.out_fd.reset();
      lease.out = EncodeLeaseFrame(
          LeaseErrorFrame(lease.out_request,
                          ResourceExhaustedError("GetSegment: the broker's uid has too many descriptors on "
                                                 "their way to processes that do not read; try again")));
      continue;
    }
    if (!sent.ok()) return false;
    if (*sent == 0) return true;
    if (lease.out_fd.valid()) lease.descriptor_unread = true;
    lease.out_fd.reset();
    lease.out.erase(0, *sent);
  }
  return true;
}

bool LeaseServer::Answer(const LeasePtr& lease, const LeaseFrame& request) {
  LeaseFrame answer;
  answer.request = request.request;
  Status error;
  if (request.type == LeaseType::kBind && lease->session == 0) {
    const StatusOr<uint64_t> session = broker_->BindLease(request.payload, lease->peer);
    error = session.status();
    if (session.ok()) {
      lease->session = *session;
      lease->peer.pidfd.reset();  // the session has its own
      loop_->Cancel(std::exchange(lease->timer, 0));
      by_session_.emplace(lease->session, lease);
      answer.type = LeaseType::kBound;
    }
  } else if (request.type == LeaseType::kGetSegment && lease->session != 0 && request.argument <= 1) {
    const bool write = request.argument == 1;
    const StatusOr<std::shared_ptr<Segment>> segment =
        broker_->FetchSegment(lease->session, {request.epoch, request.serial},
                              write ? GrantAccess::kReadWrite : GrantAccess::kReadOnly);
    error = segment.status();
    if (segment.ok()) {
      StatusOr<Fd> fd = (*segment)->OpenForGrant(write ? Access::kReadWrite : Access::kReadOnly);
      error = fd.status();
      if (fd.ok()) {
        answer.type = LeaseType::kSegment;
        answer.epoch = request.epoch;
        answer.serial = request.serial;
        answer.argument = static_cast<uint64_t>((*segment)->info().size_bytes);
        lease->out_fd = *std::move(fd);
        lease->out_request = request.request;
      } else {
        Log(LogLevel::kWarning, "segment_not_opened",
            {{"segment", request.serial}, {"cause", Message(error)}});
        error = WithoutPaths(error);
      }
    }
  } else {
    Log(LogLevel::kWarning, "lease_ended",
        {{"cause", "a frame out of place"},
         {"type", static_cast<int>(request.type)},
         {"session", lease->session}});
    return false;
  }
  if (!error.ok()) answer = LeaseErrorFrame(request.request, error);
  lease->out = EncodeLeaseFrame(answer);
  return true;
}

bool LeaseServer::NextNotice(Lease& lease) {
  LeaseFrame notice;
  if (!lease.retired.empty()) {
    notice.type = LeaseType::kSegmentRetired;
    notice.epoch = lease.retired.front().epoch;
    notice.serial = lease.retired.front().serial;
    lease.retired.pop_front();
  } else if (std::exchange(lease.flush, false)) {
    notice.type = LeaseType::kFlush;
  } else if (std::exchange(lease.stopping, false)) {
    notice.type = LeaseType::kStopping;
  } else {
    return false;
  }
  lease.out = EncodeLeaseFrame(notice);
  return true;
}

void LeaseServer::SegmentRetired(uint64_t session, SegmentId segment) {
  const auto it = by_session_.find(session);
  if (it == by_session_.end()) return;
  const LeasePtr lease = it->second;
  lease->retired.push_back(segment);
  if (!Pump(lease)) End(lease);
}

void LeaseServer::NotifyAll(LeaseType notice) {
  std::deque<LeasePtr> all;
  for (const auto& [session, lease] : by_session_) all.push_back(lease);
  for (const LeasePtr& lease : all) {
    (notice == LeaseType::kFlush ? lease->flush : lease->stopping) = true;
    if (lease->socket.valid() && !Pump(lease)) End(lease);
  }
}

void LeaseServer::Close(uint64_t session) {
  const auto it = by_session_.find(session);
  if (it == by_session_.end()) return;
  Forget(LeasePtr(it->second));
}

void LeaseServer::End(const LeasePtr& lease) {
  const uint64_t session = lease->session;
  Forget(lease);
  if (session != 0) broker_->LeaseClosed(session);
}

void LeaseServer::Forget(const LeasePtr& lease) {
  if (!lease->socket.valid()) return;
  loop_->Remove(lease->socket.get());
  if (lease->timer != 0) loop_->Cancel(lease->timer);
  leases_.erase(lease->socket.get());
  by_session_.erase(lease->session);
  const auto count = counts_.find(lease->peer.uid);
  if (--count->second == 0) counts_.erase(count);
  lease->socket.reset();
  lease->out_fd.reset();
}

size_t LeaseServer::CountOf(uid_t uid) const {
  const auto it = counts_.find(uid);
  return it == counts_.end() ? 0 : it->second;
}

void LeaseServer::Clear() {
  while (!leases_.empty()) Forget(LeasePtr(leases_.begin()->second));
}

}  // namespace tensorbroker
