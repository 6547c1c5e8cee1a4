// The wire itself, without the client library: what a hostile or broken peer can say, and what it hears.
#ifndef TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_RAW_CLIENT_H_
#define TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_RAW_CLIENT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <optional>
#include <string>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/lease.h"
#include "tensorbroker/v1/broker.grpc.pb.h"

namespace tensorbroker::testing {

namespace wire = ::tensorbroker::v1;

// A lease by hand: frames out, frames in. Blocking, with a deadline.
class RawLease {
 public:
  static StatusOr<RawLease> Connect(const std::string& socket);

  bool Send(const LeaseFrame& frame);
  bool SendBytes(std::string_view bytes);
  // The next frame; nothing at the connection's end. `fd` gets a descriptor that came.
  std::optional<LeaseFrame> Receive(Fd* fd = nullptr);
  // True where the broker ends the connection.
  bool HungUp();

 private:
  explicit RawLease(Fd socket) : socket_(std::move(socket)) {}
  Fd socket_;
  LeaseDecoder decoder_;
  Fd pending_;
};

// One gRPC connection of its own. Calls fill in no token: the test says which.
class RawClient {
 public:
  explicit RawClient(const std::string& socket);

  // A session whose lease is bound.
  static StatusOr<RawClient> WithSession(const std::string& socket);

  const std::string& token() const { return token_; }
  const std::string& lease_token() const { return lease_token_; }
  RawLease& lease() { return *lease_; }
  wire::Broker::Stub& stub() { return *stub_; }

  // Calls a method of the stub, with a deadline: `raw.Call(&Stub::Publish, request, &reply)`.
  template <typename Request, typename Reply>
  Status Call(grpc::Status (wire::Broker::Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
              const Request& request, Reply* reply) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    const grpc::Status status = ((*stub_).*method)(&context, request, reply);
    return MakeStatus(static_cast<StatusCode>(status.error_code()), status.error_message());
  }

  StatusOr<wire::OpenSessionReply> OpenSession();
  StatusOr<wire::Grant> Create(int64_t size_bytes);
  StatusOr<wire::Grant> Attach(const wire::Id& storage, bool writable);
  StatusOr<Fd> GetSegment(const wire::Id& segment, bool writable);

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<wire::Broker::Stub> stub_;
  std::string token_;
  std::string lease_token_;
  std::optional<RawLease> lease_;
  uint64_t next_call_ = 1;
};

wire::Id ToWire(StorageId id);
StorageId FromWire(const wire::Id& id);

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_RAW_CLIENT_H_
