// The way in: a connection to one broker.
//
//   auto client = tensorbroker::Client::Connect();
//   auto batch = client->Empty({32, 8, 8}, DType::kFloat32);
//   batch->Publish("train/batch/0");
//   auto same = other->Open("train/batch/0", {.timeout = 5s});   // another process: no copy
#ifndef TENSORBROKER_CLIENT_CLIENT_H_
#define TENSORBROKER_CLIENT_CLIENT_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"
#include "tensorbroker/client/options.h"
#include "tensorbroker/client/storage.h"
#include "tensorbroker/client/tensor.h"
#include "tensorbroker/proto/records.h"

namespace tensorbroker {

namespace internal {
class Session;
}

class Inspector;
class Subscription;

// A value: copies share one Session (one a process and broker: connecting twice to the same socket shares it too). When
// the last Client and the last Tensor are gone, the session is closed. Thread-safe. Works in a forked child, which
// opens a session of its own at its first call. Every call has a deadline (ConnectOptions::deadline) and, besides the
// codes it lists, gives kUnavailable (the broker is gone), kDeadlineExceeded (names whom it waited for) and
// kResourceExhausted.
class Client {
 public:
  // The first broker that answers of those that ConnectOptions::socket names. A process's first Connect starts gRPC and,
  // where $GRPC_POLL_STRATEGY is not set, sets it for that moment: no other thread may use getenv or setenv meanwhile.
  // kNotFound, kUnavailable  no broker there: names each socket tried and how to start one
  // kPermissionDenied        the socket, or the broker, does not admit this uid; or somebody else serves there
  // kFailedPrecondition      a broker of another protocol version: names both
  static StatusOr<Client> Connect(ConnectOptions options = {});
  // A private broker, started for this process, which ends with it. Children find it by $TENSORBROKER_SOCKET, which
  // this sets (setenv: no other thread may read the environment meanwhile).
  // kNotFound     no tensorbrokerd: names each place looked at
  // kUnavailable  it ended at its start: with its last words
  static StatusOr<Client> Embedded(EmbeddedOptions options = {});

  // ---- creation: a new Storage in shared memory, contiguous, without a name.
  // kInvalidArgument, kOutOfRange  a shape that cannot be, or a value that the dtype cannot hold
  // kResourceExhausted             the broker is full: asked, free, and who holds most
  // kUnimplemented                 no such device

  // The bytes of Empty may hold anything (today zeros).
  StatusOr<Tensor> Empty(Dims shape, DType dtype = DType::kFloat32, CreateOptions options = {}) const;
  StatusOr<Tensor> Zeros(Dims shape, DType dtype = DType::kFloat32, CreateOptions options = {}) const;
  StatusOr<Tensor> Ones(Dims shape, DType dtype = DType::kFloat32, CreateOptions options = {}) const;
  StatusOr<Tensor> Full(Dims shape, double value, DType dtype = DType::kFloat32,
                        CreateOptions options = {}) const;
  StatusOr<Tensor> Arange(double start, double end, double step, DType dtype = DType::kFloat32,
                          CreateOptions options = {}) const;
  StatusOr<Tensor> EmptyLike(const Tensor& tensor, CreateOptions options = {}) const;
  StatusOr<Tensor> ZerosLike(const Tensor& tensor, CreateOptions options = {}) const;
  // Untyped bytes.
  StatusOr<Storage> CreateStorage(int64_t size_bytes, CreateOptions options = {}) const;

  // ---- opening: no byte is copied. Another process's Storage, or one of this process, under the one hold.
  // kNotFound          no such name (and no timeout), or not this uid's
  // kDeadlineExceeded  it did not appear in time
  StatusOr<Tensor> Open(std::string_view name, OpenOptions options = {}) const;
  // OpenOptions::timeout means nothing here.
  // kNotFound  no such Storage, deleted, or not this uid's
  StatusOr<Storage> Attach(StorageId id, OpenOptions options = {}) const;
  // What Tensor::Export made, here or in another process; as writable as the exporter's was.
  // kNotFound         consumed, expired, or of another broker
  // kInvalidArgument  no handle, or altered on its way
  StatusOr<Tensor> Import(std::string_view handle) const;

  // ---- names
  Status Unpublish(std::string_view name) const;
  Status Rename(std::string_view from, std::string_view to, bool replace = false) const;
  // Its names go and it cannot be attached any more; its bytes go with the last hold. Gives the number of holders.
  StatusOr<int64_t> Delete(StorageId id) const;

  // Calls `callback` from a thread of the library for each event from now on, until the Subscription is destroyed
  // (which waits for a running callback). A callback must not destroy its own Subscription.
  StatusOr<Subscription> OnEvent(std::function<void(const Event&)> callback,
                                 std::string_view prefix = {}) const;

  // What operators ask.
  Inspector inspector() const;

  // Sends the releases that wait in this process now, and returns when the broker has them.
  Status Flush() const;

  const std::string& socket() const;
  // None in a forked child before its first call.
  SessionId session_id() const;
  // What crossed the socket in this session: the serialised bytes of each request sent and each reply received, and the
  // bytes of the lease's frames, both ways; without HTTP/2's framing. No tensor's bytes are ever among them.
  int64_t wire_bytes() const;

 private:
  Client(std::shared_ptr<internal::Session> session, Duration deadline)
      : session_(std::move(session)), deadline_(deadline) {}
  StatusOr<Tensor> Make(Dims shape, DType dtype, const CreateOptions& options, bool zero) const;
  TimePoint Deadline() const;

  std::shared_ptr<internal::Session> session_;
  Duration deadline_;
};

// Ends the events when destroyed. Move-only.
class Subscription {
 public:
  Subscription(Subscription&&) noexcept;
  Subscription& operator=(Subscription&&) noexcept;
  ~Subscription();

  // OK while events come. Afterwards, why they ended: kUnavailable where the broker is gone.
  Status status() const;

 private:
  friend class Client;
  class Impl;
  explicit Subscription(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_CLIENT_CLIENT_H_
