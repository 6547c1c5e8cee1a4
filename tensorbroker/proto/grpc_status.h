// Status at gRPC's edge. The code values are equal: a cast.
#ifndef TENSORBROKER_PROTO_GRPC_STATUS_H_
#define TENSORBROKER_PROTO_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

inline grpc::Status ToGrpc(const Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return grpc::Status(static_cast<grpc::StatusCode>(status.raw_code()), std::string(Message(status)));
}

// A message over kMaxMessageBytes is cut; a code that gRPC does not define is kUnknown.
inline Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return OkStatus();
  return MakeStatus(static_cast<StatusCode>(status.error_code()), status.error_message());
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_PROTO_GRPC_STATUS_H_
