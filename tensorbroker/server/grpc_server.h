// The gRPC server over the Broker. gRPC itself stays in grpc_server.cc and service.cc.
#ifndef TENSORBROKER_SERVER_GRPC_SERVER_H_
#define TENSORBROKER_SERVER_GRPC_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/connections.h"

namespace tensorbroker {

// Listens nowhere: connections are handed to it. Thread-safe.
class GrpcServer {
 public:
  // `broker` and `connections` outlive it. `on_stop` is called for a Stop that is allowed; it must not block.
  // kInternal  gRPC did not start
  static StatusOr<std::unique_ptr<GrpcServer>> Start(Broker* broker, Connections* connections,
                                                     std::function<void()> on_stop);
  ~GrpcServer();

  // Takes a connected socket that has said nothing but HTTP/2's preface.
  void AddConnection(Fd socket);
  // Ends the calls under way, those that take longer than `grace` by force. No connection may be added from here on.
  void Shutdown(Duration grace);

 private:
  struct Impl;
  explicit GrpcServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_GRPC_SERVER_H_
