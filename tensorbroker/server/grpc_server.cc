#include "tensorbroker/server/grpc_server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/impl/codegen/grpc_types.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>

#include <utility>

#include "tensorbroker/server/service.h"

namespace tensorbroker {
namespace {

constexpr int kMaxRequestBytes = 4 << 20;
constexpr int kMaxStreamsAConnection = 256;
constexpr size_t kMemoryQuotaBytes = size_t{512} << 20;

}  // namespace

struct GrpcServer::Impl {
  Impl(Broker* broker, Connections* connections, std::function<void()> on_stop)
      : service(broker, connections, std::move(on_stop)) {}
  BrokerService service;
  std::unique_ptr<grpc::Server> server;
};

GrpcServer::GrpcServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcServer::~GrpcServer() = default;

StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(Broker* broker, Connections* connections,
                                                        std::function<void()> on_stop) {
  google::protobuf::SetLogHandler(nullptr);  // a line for each bad string that a client sends
  auto impl = std::make_unique<Impl>(broker, connections, std::move(on_stop));
  grpc::ServerBuilder builder;
  builder.RegisterService(&impl->service);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsAConnection);
  grpc::ResourceQuota quota("tensorbrokerd");
  quota.Resize(kMemoryQuotaBytes);
  builder.SetResourceQuota(quota);
  impl->server = builder.BuildAndStart();
  if (impl->server == nullptr) return InternalError("gRPC did not start");
  return std::unique_ptr<GrpcServer>(new GrpcServer(std::move(impl)));
}

void GrpcServer::AddConnection(Fd socket) {
  grpc::AddInsecureChannelFromFd(impl_->server.get(), socket.release());
}

void GrpcServer::Shutdown(Duration grace) {
  impl_->server->Shutdown(std::chrono::system_clock::now() +
                          std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
  impl_->server->Wait();
}

}  // namespace tensorbroker
