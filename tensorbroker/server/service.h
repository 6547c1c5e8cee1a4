// The handlers of tensorbroker.v1.Broker: message to value, one call, value to message. No rule, lock or count here.
#ifndef TENSORBROKER_SERVER_SERVICE_H_
#define TENSORBROKER_SERVER_SERVICE_H_

#include <functional>
#include <utility>

#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/connections.h"
#include "tensorbroker/v1/broker.grpc.pb.h"

namespace tensorbroker {

// All by gRPC's callbacks: its synchronous handlers start a thread for each call that finds none free, and whoever can
// connect could make thousands.
class BrokerService final : public v1::Broker::CallbackService {
 public:
  BrokerService(Broker* broker, Connections* connections, std::function<void()> on_stop)
      : broker_(broker), connections_(connections), on_stop_(std::move(on_stop)) {}

  grpc::ServerUnaryReactor* OpenSession(grpc::CallbackServerContext*, const v1::OpenSessionRequest*,
                                        v1::OpenSessionReply*) override;
  grpc::ServerUnaryReactor* CloseSession(grpc::CallbackServerContext*, const v1::CloseSessionRequest*,
                                         v1::CloseSessionReply*) override;
  grpc::ServerUnaryReactor* Create(grpc::CallbackServerContext*, const v1::CreateRequest*,
                                   v1::CreateReply*) override;
  grpc::ServerUnaryReactor* Open(grpc::CallbackServerContext*, const v1::OpenRequest*,
                                 v1::OpenReply*) override;
  grpc::ServerUnaryReactor* AwaitOpen(grpc::CallbackServerContext*, const v1::AwaitOpenRequest*,
                                      v1::OpenReply*) override;
  grpc::ServerUnaryReactor* Attach(grpc::CallbackServerContext*, const v1::AttachRequest*,
                                   v1::AttachReply*) override;
  grpc::ServerUnaryReactor* ClaimInherited(grpc::CallbackServerContext*, const v1::ClaimInheritedRequest*,
                                           v1::ClaimInheritedReply*) override;
  grpc::ServerUnaryReactor* Release(grpc::CallbackServerContext*, const v1::ReleaseRequest*,
                                    v1::ReleaseReply*) override;
  grpc::ServerUnaryReactor* Export(grpc::CallbackServerContext*, const v1::ExportRequest*,
                                   v1::ExportReply*) override;
  grpc::ServerUnaryReactor* Import(grpc::CallbackServerContext*, const v1::ImportRequest*,
                                   v1::ImportReply*) override;
  grpc::ServerUnaryReactor* Publish(grpc::CallbackServerContext*, const v1::PublishRequest*,
                                    v1::PublishReply*) override;
  grpc::ServerUnaryReactor* Unpublish(grpc::CallbackServerContext*, const v1::UnpublishRequest*,
                                      v1::UnpublishReply*) override;
  grpc::ServerUnaryReactor* Rename(grpc::CallbackServerContext*, const v1::RenameRequest*,
                                   v1::RenameReply*) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext*, const v1::DeleteRequest*,
                                   v1::DeleteReply*) override;
  grpc::ServerWriteReactor<v1::ListReply>* List(grpc::CallbackServerContext*,
                                                const v1::ListRequest*) override;
  grpc::ServerUnaryReactor* Stat(grpc::CallbackServerContext*, const v1::StatRequest*,
                                 v1::StatReply*) override;
  grpc::ServerWriteReactor<v1::ListSessionsReply>* ListSessions(grpc::CallbackServerContext*,
                                                                const v1::ListSessionsRequest*) override;
  grpc::ServerWriteReactor<v1::WatchReply>* Watch(grpc::CallbackServerContext*,
                                                  const v1::WatchRequest*) override;
  grpc::ServerUnaryReactor* Info(grpc::CallbackServerContext*, const v1::InfoRequest*,
                                 v1::InfoReply*) override;
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext*, const v1::StopRequest*,
                                 v1::StopReply*) override;

 private:
  Broker* const broker_;
  Connections* const connections_;
  const std::function<void()> on_stop_;  // must not block
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_SERVICE_H_
