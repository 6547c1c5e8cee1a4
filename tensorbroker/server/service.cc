#include "tensorbroker/server/service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <utility>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/proto/convert.h"
#include "tensorbroker/proto/grpc_status.h"
#include "tensorbroker/server/streams.h"

namespace tensorbroker {
namespace {

Status NoConnection() { return UnavailableError("the connection has ended; connect again"); }

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const Status& status) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// Finds who asks, and answers with what `call(connection)` gives: a Status. For calls that are over at once.
template <typename Call>
grpc::ServerUnaryReactor* Handle(const Connections& connections, grpc::CallbackServerContext* context,
                                 Call call) {
  const std::shared_ptr<Connection> connection = connections.Find(context->peer());
  return Answer(context, connection == nullptr ? NoConnection() : call(*connection));
}

StatusOr<OpenCall> OpenFromProto(const v1::OpenRequest& request) {
  OpenCall call;
  TB_ASSIGN_OR_RETURN(call.access, FromProto(request.access()));
  call.token = request.session();
  call.call_id = request.call_id();
  call.name = request.name();
  return call;
}

void OpenedToProto(const Opened& opened, v1::OpenReply* reply) {
  ToProto(opened.grant, reply->mutable_grant());
  if (opened.header) ToProto(*opened.header, reply->mutable_header());
  reply->set_version(opened.version);
}

// A unary call that is answered later: who holds it calls Finish, once, from any thread; gRPC then calls OnDone.
class UnaryReactor : public grpc::ServerUnaryReactor {
 public:
  explicit UnaryReactor(std::function<void()> on_cancel) : on_cancel_(std::move(on_cancel)) {}
  void OnCancel() override { on_cancel_(); }
  void OnDone() override { delete this; }

 private:
  const std::function<void()> on_cancel_;
};

}  // namespace

grpc::ServerUnaryReactor* BrokerService::OpenSession(grpc::CallbackServerContext* context,
                                                     const v1::OpenSessionRequest* request,
                                                     v1::OpenSessionReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    TB_ASSIGN_OR_RETURN(const OpenedSession opened,
                        broker_->OpenSession(connection, request->protocol_version(),
                                             request->client_version(), request->label()));
    ToProto(opened, reply);
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::CloseSession(grpc::CallbackServerContext* context,
                                                      const v1::CloseSessionRequest* request,
                                                      v1::CloseSessionReply*) {
  return Handle(*connections_, context, [&](Connection& connection) {
    return broker_->CloseSession(connection, request->session());
  });
}

grpc::ServerUnaryReactor* BrokerService::Create(grpc::CallbackServerContext* context,
                                                const v1::CreateRequest* request, v1::CreateReply* reply) {
  const std::shared_ptr<Connection> connection = connections_->Find(context->peer());
  if (connection == nullptr) return Answer(context, NoConnection());
  StatusOr<CreateCall> call = FromProto(*request);
  if (!call.ok()) {
    // The releases that ride along are good all the same.
    const Status released = broker_->Release(*connection, request->session(), FromProto(request->releases()));
    return Answer(context, released.ok() ? Annotate(call.status(), "Create") : released);
  }
  auto gone = std::make_shared<std::atomic<bool>>(false);
  auto* const reactor = new UnaryReactor([gone] { gone->store(true, std::memory_order_relaxed); });
  broker_->Create(*connection, *std::move(call), gone, [reactor, reply](StatusOr<Created> created) {
    if (created.ok()) ToProto(*created, reply);
    reactor->Finish(ToGrpc(created.status()));
  });
  return reactor;
}

grpc::ServerUnaryReactor* BrokerService::Open(grpc::CallbackServerContext* context,
                                              const v1::OpenRequest* request, v1::OpenReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    TB_ASSIGN_OR_RETURN(const OpenCall call, OpenFromProto(*request));
    TB_ASSIGN_OR_RETURN(const Opened opened, broker_->Open(connection, call));
    OpenedToProto(opened, reply);
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::AwaitOpen(grpc::CallbackServerContext* context,
                                                   const v1::AwaitOpenRequest* request,
                                                   v1::OpenReply* reply) {
  const std::shared_ptr<Connection> connection = connections_->Find(context->peer());
  if (connection == nullptr) return Answer(context, NoConnection());
  const StatusOr<OpenCall> call = OpenFromProto(request->open());
  if (!call.ok()) return Answer(context, Annotate(call.status(), "AwaitOpen"));
  const uint64_t wait = broker_->NewCall();
  auto* const reactor = new UnaryReactor([broker = broker_, wait] { broker->CancelWait(wait); });
  broker_->AwaitOpen(*connection, *call, Duration(request->timeout_ns()), wait,
                     [reactor, reply](StatusOr<Opened> opened) {
                       if (opened.ok()) OpenedToProto(*opened, reply);
                       reactor->Finish(ToGrpc(opened.status()));
                     });
  return reactor;
}

grpc::ServerUnaryReactor* BrokerService::Attach(grpc::CallbackServerContext* context,
                                                const v1::AttachRequest* request, v1::AttachReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    AttachCall call;
    TB_ASSIGN_OR_RETURN(call.access, FromProto(request->access()));
    call.token = request->session();
    call.call_id = request->call_id();
    call.storage = IdFromProto<StorageIdTag>(request->storage());
    TB_ASSIGN_OR_RETURN(const Opened opened, broker_->Attach(connection, call));
    ToProto(opened.grant, reply->mutable_grant());
    if (opened.header) ToProto(*opened.header, reply->mutable_header());
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::ClaimInherited(grpc::CallbackServerContext* context,
                                                        const v1::ClaimInheritedRequest* request,
                                                        v1::ClaimInheritedReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    std::vector<StorageId> storages;
    for (const v1::Id& id : request->storages()) storages.push_back(IdFromProto<StorageIdTag>(id));
    TB_ASSIGN_OR_RETURN(
        const std::vector<Grant> grants,
        broker_->ClaimInherited(connection, request->session(), request->parent_session(), storages));
    for (const Grant& grant : grants) ToProto(grant, reply->add_grants());
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::Release(grpc::CallbackServerContext* context,
                                                 const v1::ReleaseRequest* request, v1::ReleaseReply*) {
  return Handle(*connections_, context, [&](Connection& connection) {
    return broker_->Release(connection, request->session(), FromProto(request->releases()));
  });
}

grpc::ServerUnaryReactor* BrokerService::Export(grpc::CallbackServerContext* context,
                                                const v1::ExportRequest* request, v1::ExportReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    ExportCall call;
    TB_ASSIGN_OR_RETURN(call.access, FromProto(request->access()));
    call.token = request->session();
    call.call_id = request->call_id();
    call.storage = IdFromProto<StorageIdTag>(request->storage());
    TB_ASSIGN_OR_RETURN(std::string token, broker_->Export(connection, call));
    reply->set_transfer_token(std::move(token));
    reply->set_ttl_ns(broker_->limits().transfer_ttl.count());
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::Import(grpc::CallbackServerContext* context,
                                                const v1::ImportRequest* request, v1::ImportReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    ImportCall call;
    call.token = request->session();
    call.call_id = request->call_id();
    call.storage = IdFromProto<StorageIdTag>(request->storage());
    call.transfer_token = request->transfer_token();
    TB_ASSIGN_OR_RETURN(const Opened opened, broker_->Import(connection, call));
    ToProto(opened.grant, reply->mutable_grant());
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::Publish(grpc::CallbackServerContext* context,
                                                 const v1::PublishRequest* request, v1::PublishReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    PublishCall call;
    StatusOr<Header> header = FromProto(request->header(), kCpu);
    if (!header.ok()) return Annotate(header.status(), "Publish");
    call.header = *std::move(header);
    call.token = request->session();
    call.name = request->name();
    call.storage = IdFromProto<StorageIdTag>(request->storage());
    call.replace = request->replace();
    if (request->lifetime() != v1::LIFETIME_PERSISTENT && request->lifetime() != v1::LIFETIME_SESSION) {
      return InvalidArgumentError(
          fmt::format("Publish: lifetime {} is unknown", static_cast<int>(request->lifetime())));
    }
    call.persistent = request->lifetime() == v1::LIFETIME_PERSISTENT;
    call.ttl_ns = request->ttl_ns();
    TB_ASSIGN_OR_RETURN(const uint64_t version, broker_->Publish(connection, call));
    reply->set_version(version);
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::Unpublish(grpc::CallbackServerContext* context,
                                                   const v1::UnpublishRequest* request, v1::UnpublishReply*) {
  return Handle(*connections_, context, [&](Connection& connection) {
    return broker_->Unpublish(connection, request->session(), request->name());
  });
}

grpc::ServerUnaryReactor* BrokerService::Rename(grpc::CallbackServerContext* context,
                                                const v1::RenameRequest* request, v1::RenameReply*) {
  return Handle(*connections_, context, [&](Connection& connection) {
    return broker_->Rename(connection, request->session(), request->from(), request->to(),
                           request->replace());
  });
}

grpc::ServerUnaryReactor* BrokerService::Delete(grpc::CallbackServerContext* context,
                                                const v1::DeleteRequest* request, v1::DeleteReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    TB_ASSIGN_OR_RETURN(
        const uint32_t holders,
        broker_->Delete(connection, request->session(), IdFromProto<StorageIdTag>(request->storage())));
    reply->set_holders(holders);
    return OkStatus();
  });
}

grpc::ServerWriteReactor<v1::ListReply>* BrokerService::List(grpc::CallbackServerContext* context,
                                                             const v1::ListRequest* request) {
  ListCall call{request->session(), request->prefix(), request->holders()};
  return StartPages<v1::ListReply, StorageRecord>(
      connections_->Find(context->peer()),
      [broker = broker_, call = std::move(call)](Connection& connection, uint64_t* cursor, bool* end) {
        return broker->ListPage(connection, call, cursor, end);
      },
      [](v1::ListReply& reply) { return reply.add_storages(); });
}

grpc::ServerUnaryReactor* BrokerService::Stat(grpc::CallbackServerContext* context,
                                              const v1::StatRequest* request, v1::StatReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    if (request->subject_case() == v1::StatRequest::SUBJECT_NOT_SET) {
      return InvalidArgumentError("Stat: neither a name nor a Storage is given");
    }
    TB_ASSIGN_OR_RETURN(const StorageRecord record,
                        request->has_name()
                            ? broker_->StatName(connection, request->session(), request->name())
                            : broker_->StatStorage(connection, request->session(),
                                                   IdFromProto<StorageIdTag>(request->storage())));
    ToProto(record, reply->mutable_storage());
    return OkStatus();
  });
}

grpc::ServerWriteReactor<v1::ListSessionsReply>* BrokerService::ListSessions(
    grpc::CallbackServerContext* context, const v1::ListSessionsRequest* request) {
  return StartPages<v1::ListSessionsReply, SessionRecord>(
      connections_->Find(context->peer()),
      [broker = broker_, token = request->session(), held = request->held()](Connection& connection,
                                                                             uint64_t* cursor, bool* end) {
        return broker->ListSessionsPage(connection, token, held, cursor, end);
      },
      [](v1::ListSessionsReply& reply) { return reply.add_sessions(); });
}

grpc::ServerWriteReactor<v1::WatchReply>* BrokerService::Watch(grpc::CallbackServerContext* context,
                                                               const v1::WatchRequest* request) {
  return StartWatch(broker_, connections_->Find(context->peer()), request->session(), request->prefix());
}

grpc::ServerUnaryReactor* BrokerService::Info(grpc::CallbackServerContext* context,
                                              const v1::InfoRequest* request, v1::InfoReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    TB_ASSIGN_OR_RETURN(const BrokerInfo info, broker_->Info(connection, request->session()));
    ToProto(info, reply->mutable_info());
    return OkStatus();
  });
}

grpc::ServerUnaryReactor* BrokerService::Stop(grpc::CallbackServerContext* context,
                                              const v1::StopRequest* request, v1::StopReply* reply) {
  return Handle(*connections_, context, [&](Connection& connection) -> Status {
    TB_RETURN_IF_ERROR(broker_->CheckMayStop(connection, request->session()));
    reply->set_pid(getpid());
    on_stop_();
    return OkStatus();
  });
}

}  // namespace tensorbroker
