// The handlers of tensorbroker.v1.Broker: message to value, one call, value to message. No rule, lock or count here.
#ifndef TENSORBROKER_SERVER_SERVICE_H_
#define TENSORBROKER_SERVER_SERVICE_H_

#include <functional>
#include <utility>

#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/connections.h"
#include "tensorbroker/v1/broker.grpc.pb.h"

namespace tensorbroker {

// Short calls run on gRPC's threads; those that wait, reserve or stream hold none.
using BrokerServiceBase = v1::Broker::WithCallbackMethod_Create<v1::Broker::WithCallbackMethod_AwaitOpen<
    v1::Broker::WithCallbackMethod_Watch<v1::Broker::WithCallbackMethod_List<
        v1::Broker::WithCallbackMethod_ListSessions<v1::Broker::Service>>>>>;

class BrokerService final : public BrokerServiceBase {
 public:
  BrokerService(Broker* broker, Connections* connections, std::function<void()> on_stop)
      : broker_(broker), connections_(connections), on_stop_(std::move(on_stop)) {}

  grpc::Status OpenSession(grpc::ServerContext*, const v1::OpenSessionRequest*,
                           v1::OpenSessionReply*) override;
  grpc::Status CloseSession(grpc::ServerContext*, const v1::CloseSessionRequest*,
                            v1::CloseSessionReply*) override;
  grpc::ServerUnaryReactor* Create(grpc::CallbackServerContext*, const v1::CreateRequest*,
                                   v1::CreateReply*) override;
  grpc::Status Open(grpc::ServerContext*, const v1::OpenRequest*, v1::OpenReply*) override;
  grpc::ServerUnaryReactor* AwaitOpen(grpc::CallbackServerContext*, const v1::AwaitOpenRequest*,
                                      v1::OpenReply*) override;
  grpc::Status Attach(grpc::ServerContext*, const v1::AttachRequest*, v1::AttachReply*) override;
  grpc::Status ClaimInherited(grpc::ServerContext*, const v1::ClaimInheritedRequest*,
                              v1::ClaimInheritedReply*) override;
  grpc::Status Release(grpc::ServerContext*, const v1::ReleaseRequest*, v1::ReleaseReply*) override;
  grpc::Status Export(grpc::ServerContext*, const v1::ExportRequest*, v1::ExportReply*) override;
  grpc::Status Import(grpc::ServerContext*, const v1::ImportRequest*, v1::ImportReply*) override;
  grpc::Status Publish(grpc::ServerContext*, const v1::PublishRequest*, v1::PublishReply*) override;
  grpc::Status Unpublish(grpc::ServerContext*, const v1::UnpublishRequest*, v1::UnpublishReply*) override;
  grpc::Status Rename(grpc::ServerContext*, const v1::RenameRequest*, v1::RenameReply*) override;
  grpc::Status Delete(grpc::ServerContext*, const v1::DeleteRequest*, v1::DeleteReply*) override;
  grpc::ServerWriteReactor<v1::ListReply>* List(grpc::CallbackServerContext*,
                                                const v1::ListRequest*) override;
  grpc::Status Stat(grpc::ServerContext*, const v1::StatRequest*, v1::StatReply*) override;
  grpc::ServerWriteReactor<v1::ListSessionsReply>* ListSessions(grpc::CallbackServerContext*,
                                                                const v1::ListSessionsRequest*) override;
  grpc::ServerWriteReactor<v1::WatchReply>* Watch(grpc::CallbackServerContext*,
                                                  const v1::WatchRequest*) override;
  grpc::Status Info(grpc::ServerContext*, const v1::InfoRequest*, v1::InfoReply*) override;
  grpc::Status Stop(grpc::ServerContext*, const v1::StopRequest*, v1::StopReply*) override;

 private:
  Broker* const broker_;
  Connections* const connections_;
  const std::function<void()> on_stop_;  // must not block
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_SERVICE_H_
