#include "bench/floor.h"

#include <grpcpp/grpcpp.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "bench/harness.h"
#include "echo.grpc.pb.h"
#include "tensorbroker/ipc/socket.h"
#include "tensorbroker/v1/broker.pb.h"

namespace tensorbroker::bench {
namespace {

void Fill(v1::Grant& grant) {
  grant.mutable_storage()->set_epoch(1);
  grant.mutable_storage()->set_serial(1000);
  grant.mutable_segment()->set_epoch(1);
  grant.mutable_segment()->set_serial(1000);
  grant.set_size_bytes(4096);
  grant.set_segment_size_bytes(4096);
  grant.set_access(v1::ACCESS_READ_WRITE);
}

}  // namespace

Payload OpenPayload() {
  v1::OpenRequest request;
  request.set_session(std::string(16, 's'));
  request.set_call_id(1000);
  request.set_name("bench/lookup");
  v1::OpenReply reply;
  Fill(*reply.mutable_grant());
  reply.mutable_header()->set_dtype(v1::DTYPE_FLOAT32);
  reply.mutable_header()->add_shape(1024);
  reply.mutable_header()->add_strides(1);
  reply.set_version(1);
  return {static_cast<int64_t>(request.ByteSizeLong()), static_cast<int64_t>(reply.ByteSizeLong())};
}

Payload CreatePayload() {
  v1::CreateRequest request;
  request.set_session(std::string(16, 's'));
  request.set_call_id(1000);
  request.set_size_bytes(4096);
  v1::CreateReply reply;
  Fill(*reply.mutable_grant());
  reply.set_zeroed(true);
  return {static_cast<int64_t>(request.ByteSizeLong()), static_cast<int64_t>(reply.ByteSizeLong())};
}

struct Floor::Stub {
  std::unique_ptr<Echo::Stub> echo;
};

Floor::Floor(Floor&&) noexcept = default;
Floor::~Floor() = default;

StatusOr<Floor> Floor::Start() {
  Floor floor;
  floor.directories_ = std::make_unique<Directories>();
  setenv("FLOOR_SHM", floor.directories_->shm().c_str(), 1);
  TB_ASSIGN_OR_RETURN(Process server,
                      Process::Start("floor_echo", {floor.directories_->sockets()}, kBrokerCore));
  TB_RETURN_IF_ERROR(server.Expect("ready"));
  floor.server_ = std::make_unique<Process>(std::move(server));
  floor.stub_ = std::make_unique<Stub>(Stub{Echo::NewStub(grpc::CreateChannel(
      "unix:" + floor.directories_->sockets() + "/echo.sock", grpc::InsecureChannelCredentials()))});
  TB_ASSIGN_OR_RETURN(floor.descriptors_,
                      ConnectUnix(floor.directories_->sockets() + "/fd.sock", std::chrono::seconds(5)));
  return floor;
}

Status Floor::Echo(Payload payload) {
  grpc::ClientContext context;
  EchoRequest request;
  EchoReply reply;
  request.mutable_payload()->assign(static_cast<size_t>(payload.request_bytes), 'q');
  request.set_reply_bytes(static_cast<uint32_t>(payload.reply_bytes));
  const grpc::Status status = stub_->echo->Call(&context, request, &reply);
  return status.ok() ? OkStatus() : UnavailableError(status.error_message());
}

StatusOr<Fd> Floor::Fetch(int64_t request) {
  if (send(descriptors_.get(), &request, sizeof(request), MSG_NOSIGNAL) != sizeof(request)) {
    return UnavailableError("the floor's server is gone");
  }
  char byte = 0;
  TB_ASSIGN_OR_RETURN(Received received,
                      RecvWithFd(descriptors_.get(), std::as_writable_bytes(std::span(&byte, 1))));
  return std::move(received.fd);
}

StatusOr<Fd> Floor::NewFile(int64_t bytes) { return Fetch(bytes); }
StatusOr<Fd> Floor::SparseFile(int64_t bytes) { return Fetch(-bytes); }

FloorMapping::FloorMapping(int fd, int64_t bytes, bool writable, bool populate) : bytes_(bytes) {
  void* data = mmap(nullptr, static_cast<size_t>(bytes), writable ? PROT_READ | PROT_WRITE : PROT_READ,
                    MAP_SHARED | (populate ? MAP_POPULATE : 0), fd, 0);
  if (data != MAP_FAILED) data_ = static_cast<char*>(data);
}

FloorMapping::~FloorMapping() {
  if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

void WritePages(void* data, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(data)[at] = 1;
}

int64_t ReadPages(const void* data, int64_t bytes) {
  int64_t sum = 0;
  for (int64_t at = 0; at < bytes; at += 4096) sum += static_cast<const volatile char*>(data)[at];
  return sum;
}

}  // namespace tensorbroker::bench
