#include "tests/multiprocess/harness/raw_client.h"

#include <poll.h>

#include "tensorbroker/ipc/socket.h"
#include "tests/multiprocess/harness/process.h"

namespace tensorbroker::testing {

StatusOr<RawLease> RawLease::Connect(const std::string& socket) {
  TB_ASSIGN_OR_RETURN(Fd fd, ConnectUnix(socket, 5s));
  return RawLease(std::move(fd));
}

bool RawLease::Send(const LeaseFrame& frame) { return SendBytes(EncodeLeaseFrame(frame)); }

bool RawLease::SendBytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const StatusOr<size_t> sent =
        SendWithFd(socket_.get(), {reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()}, -1);
    if (!sent.ok()) return false;
    bytes.remove_prefix(*sent);
  }
  return true;
}

std::optional<LeaseFrame> RawLease::Receive(Fd* fd) {
  for (;;) {
    if (std::optional<LeaseFrame> frame = decoder_.Pop()) {
      if (fd != nullptr) *fd = std::move(pending_);
      return frame;
    }
    pollfd ready{socket_.get(), POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(kHang / 1ms)) != 1) return std::nullopt;
    std::byte buffer[2048];
    StatusOr<Received> received = RecvWithFd(socket_.get(), buffer);
    if (!received.ok() || received->closed()) return std::nullopt;
    if (received->fd.valid()) pending_ = std::move(received->fd);
    if (!decoder_.Push({reinterpret_cast<const char*>(buffer), received->bytes}).ok()) return std::nullopt;
  }
}

bool RawLease::HungUp() {
  for (;;) {  // whatever it still says
    pollfd ready{socket_.get(), POLLIN, 0};
    if (poll(&ready, 1, static_cast<int>(kHang / 1ms)) != 1) return false;
    std::byte buffer[2048];
    const StatusOr<Received> received = RecvWithFd(socket_.get(), buffer);
    if (!received.ok() || received->closed()) return true;
  }
}

RawClient::RawClient(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  channel_ = grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  stub_ = wire::Broker::NewStub(channel_);
}

StatusOr<wire::OpenSessionReply> RawClient::OpenSession() {
  wire::OpenSessionRequest request;
  request.set_protocol_version(1);
  request.set_client_version("raw");
  request.set_label("raw");
  wire::OpenSessionReply reply;
  TB_RETURN_IF_ERROR(Call(&wire::Broker::Stub::OpenSession, request, &reply));
  return reply;
}

StatusOr<RawClient> RawClient::WithSession(const std::string& socket) {
  RawClient raw(socket);
  TB_ASSIGN_OR_RETURN(RawLease lease, RawLease::Connect(socket));
  TB_ASSIGN_OR_RETURN(const wire::OpenSessionReply reply, raw.OpenSession());
  raw.token_ = reply.session_token();
  raw.lease_token_ = reply.lease_token();
  lease.Send({.type = LeaseType::kBind, .request = 1, .payload = reply.lease_token()});
  const std::optional<LeaseFrame> answer = lease.Receive();
  if (!answer) return UnavailableError("the broker hung up");
  if (answer->type != LeaseType::kBound) return LeaseErrorStatus(*answer);
  raw.lease_ = std::move(lease);
  return raw;
}

StatusOr<wire::Grant> RawClient::Create(int64_t size_bytes) {
  wire::CreateRequest request;
  request.set_session(token_);
  request.set_call_id(next_call_++);
  request.set_size_bytes(size_bytes);
  wire::CreateReply reply;
  TB_RETURN_IF_ERROR(Call(&wire::Broker::Stub::Create, request, &reply));
  return reply.grant();
}

StatusOr<wire::Grant> RawClient::Attach(const wire::Id& storage, bool writable) {
  wire::AttachRequest request;
  request.set_session(token_);
  request.set_call_id(next_call_++);
  *request.mutable_storage() = storage;
  request.set_access(writable ? wire::ACCESS_READ_WRITE : wire::ACCESS_READ_ONLY);
  wire::AttachReply reply;
  TB_RETURN_IF_ERROR(Call(&wire::Broker::Stub::Attach, request, &reply));
  return reply.grant();
}

StatusOr<Fd> RawClient::GetSegment(const wire::Id& segment, bool writable) {
  lease_->Send({.type = LeaseType::kGetSegment,
                .request = 2,
                .epoch = segment.epoch(),
                .serial = segment.serial(),
                .argument = writable ? uint64_t{1} : uint64_t{0}});
  for (;;) {
    Fd fd;
    const std::optional<LeaseFrame> answer = lease_->Receive(&fd);
    if (!answer) return UnavailableError("the broker hung up");
    if (answer->request == 0) continue;  // a notice
    if (answer->type == LeaseType::kError) return LeaseErrorStatus(*answer);
    return fd;
  }
}

wire::Id ToWire(StorageId id) {
  wire::Id message;
  message.set_epoch(id.epoch);
  message.set_serial(id.serial);
  return message;
}

StorageId FromWire(const wire::Id& id) { return {id.epoch(), id.serial()}; }

}  // namespace tensorbroker::testing
