#include "tensorbroker/client/connection.h"

#include <absl/strings/cord.h>
#include <dlfcn.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <utility>
#include <vector>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/base/name.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/base/version.h"
#include "tensorbroker/client/pending_call.h"
#include "tensorbroker/proto/convert.h"
#include "tensorbroker/proto/grpc_status.h"
#include "tensorbroker/v1/broker.grpc.pb.h"

namespace tensorbroker::internal {

namespace {

using Stub = v1::Broker::Stub;

// "unix:" with the path's odd characters escaped, as gRPC's URI parser wants them.
std::string Target(const std::string& path) {
  std::string target = "unix:";
  for (const char c : path) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       std::string_view("/-._~").find(c) != std::string_view::npos;
    target += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return target;
}

std::shared_ptr<grpc::Channel> MakeChannel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // never a connection that a parent process made
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // a retried call would be a second grant
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetMaxReceiveMessageSize(64 << 20);
  return grpc::CreateCustomChannel(Target(socket), grpc::InsecureChannelCredentials(), arguments);
}

// What a call is about, for its messages.
struct Subject {
  std::string_view call;
  std::string_view name = {};
  StorageId id = {};

  std::string ToString() const {
    if (!name.empty()) return fmt::format("{} {}", call, QuoteForMessage(name));
    if (id) return fmt::format("{} {}", call, tensorbroker::ToString(id));
    return std::string(call);
  }
};

// A mark on the Status of a call that the client itself gave up: it is not the broker's answer.
constexpr char kNoAnswer[] = "tensorbroker/no-answer";

// gRPC 1.51 aborts the process, or gives a call up at once, where it gets no descriptor for what wakes its polls: so that is
// looked at first. Other threads may take them meanwhile; this is as near as one can come.
// kResourceExhausted  fewer than `count` descriptors are left: the limit, and how to raise it
Status CheckDescriptorsLeft(std::string_view call, size_t count) {
  std::vector<Fd> taken;
  while (taken.size() < count) {
    taken.emplace_back(eventfd(0, EFD_CLOEXEC));
    if (!taken.back().valid()) {
      return ErrnoStatus(errno, fmt::format("{}: gRPC needs {} more descriptors", call, count));
    }
  }
  return OkStatus();
}
constexpr size_t kDescriptorsOfAQueue = 2;
constexpr size_t kDescriptorsOfAChannel = 4;  // its socket, and what wakes those that poll it

}  // namespace

bool MayHaveGranted(const Status& status) {
  if (status.GetPayload(kNoAnswer).has_value()) return true;
  switch (status.code()) {
    case StatusCode::kUnavailable:
    case StatusCode::kInternal:
    case StatusCode::kUnknown:
      return true;
    default:
      return false;
  }
}

struct WatchCanceller::Impl {
  Mutex mutex;
  bool cancelled TB_GUARDED_BY(mutex) = false;
  grpc::ClientContext* context TB_GUARDED_BY(mutex) = nullptr;
};

WatchCanceller::WatchCanceller() : impl_(std::make_unique<Impl>()) {}
WatchCanceller::~WatchCanceller() = default;

void WatchCanceller::Cancel() {
  const GatePass pass;
  if (!pass.entered()) return;
  {
    MutexLock lock(impl_->mutex);
    impl_->cancelled = true;
    if (impl_->context != nullptr) impl_->context->TryCancel();
  }
}

struct Connection::Impl {
  Impl(std::string path, std::shared_ptr<grpc::Channel> to)
      : socket(std::move(path)), channel(std::move(to)), stub(channel) {}

  const std::string socket;
  std::shared_ptr<grpc::Channel> channel;
  Stub stub;
  std::string session;  // the token; written by OpenSession before any other call
  std::atomic<int32_t> broker_pid{0};
  std::atomic<int64_t> wire_bytes{0};

  Mutex mutex;
  std::vector<std::unique_ptr<grpc::CompletionQueue>> idle TB_GUARDED_BY(mutex);

  // A call that its thread has entered.
  // kUnavailable        the process is exiting
  // kResourceExhausted  no descriptors are left
  template <typename T>
  StatusOr<std::unique_ptr<T>> Start(const Subject& subject) {
    std::unique_ptr<T> call;
    {
      const GatePass pass;
      if (!pass.entered()) return Exiting(subject);
      TB_ASSIGN_OR_RETURN(auto queue, TakeQueue(subject));
      call = std::make_unique<T>(std::move(queue));
    }
    if (call->Enter()) return call;
    Leak(std::move(call));
    return Exiting(subject);
  }

  StatusOr<std::unique_ptr<grpc::CompletionQueue>> TakeQueue(const Subject& subject) {
    {
      MutexLock lock(mutex);
      if (!idle.empty()) {
        auto queue = std::move(idle.back());
        idle.pop_back();
        return queue;
      }
    }
    TB_RETURN_IF_ERROR(CheckDescriptorsLeft(subject.ToString(), kDescriptorsOfAQueue));
    return std::make_unique<grpc::CompletionQueue>();
  }

  void PutQueue(std::unique_ptr<grpc::CompletionQueue> queue) {
    if (queue == nullptr) return;
    MutexLock lock(mutex);
    idle.push_back(std::move(queue));
  }

  void Count(const google::protobuf::MessageLite& message) {
    wire_bytes.fetch_add(static_cast<int64_t>(message.ByteSizeLong()), std::memory_order_relaxed);
  }

  std::string Broker() const {
    const int32_t pid = broker_pid.load();
    return pid == 0 ? fmt::format("the broker at {}", socket)
                    : fmt::format("the broker (pid {}) at {}", pid, socket);
  }

  // The call was given up after `waited`, of the `allowed` time.
  Status Late(const Subject& subject, Duration waited, Duration allowed) const {
    Status late = DeadlineExceededError(
        fmt::format("{}: no answer from {} within {}; is it stopped, or overloaded? (`tensorctl info`)",
                    subject.ToString(), Broker(), HumanDuration(waited)));
    if (waited + std::chrono::milliseconds(1) < allowed) {
      const Status left = CheckDescriptorsLeft(subject.ToString(), kDescriptorsOfAQueue);
      late = left.ok()
                 ? UnavailableError(fmt::format("{}: gRPC could not wait for the answer of {}; try again",
                                                subject.ToString(), Broker()))
                 : left;
    }
    late.SetPayload(kNoAnswer, absl::Cord("1"));
    return late;
  }

  Status Exiting(const Subject& subject) const {
    return UnavailableError(fmt::format("{}: this process is exiting", subject.ToString()));
  }

  Status Convert(const Subject& subject, const grpc::Status& status) const {
    if (status.ok()) return OkStatus();
    const Status converted = FromGrpc(status);
    // Our own cancels are told apart before: this one is gRPC's, as the broker ends.
    if (converted.code() == StatusCode::kCancelled) {
      return UnavailableError(fmt::format("{}: {} gave the call up ({}): it is ending", subject.ToString(),
                                          Broker(), status.error_message()));
    }
    if (converted.code() == StatusCode::kUnavailable) {
      return UnavailableError(fmt::format("{}: {} is gone ({}); start it again and connect anew",
                                          subject.ToString(), Broker(), status.error_message()));
    }
    return converted;
  }

  Status Malformed(const Subject& subject, const Status& cause) const {
    return InternalError(
        fmt::format("{}: {} sent a reply that cannot be: {}", subject.ToString(), Broker(), Message(cause)));
  }

  template <typename Request, typename Reply>
  using Prepare = std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> (Stub::*)(grpc::ClientContext*,
                                                                                    const Request&,
                                                                                    grpc::CompletionQueue*);

  template <typename Request, typename Reply>
  Status Call(Prepare<Request, Reply> prepare, const Subject& subject, const Request& request, Reply* reply,
              TimePoint deadline) {
    struct Unary : PendingCall {
      using PendingCall::PendingCall;
      Reply reply;
      grpc::Status status;
      std::unique_ptr<grpc::ClientAsyncResponseReader<Reply>> reader;
    };
    const TimePoint start = Clock::Real().Now();
    const auto too_late = [&] { return Late(subject, Clock::Real().Now() - start, deadline - start); };
    TB_ASSIGN_OR_RETURN(std::unique_ptr<Unary> call, Start<Unary>(subject));
    Count(request);
    call->reader = (stub.*prepare)(&call->context(), request, call->queue());
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call->tag());
    bool ok = false;
    bool late = false;
    if (!call->Await(deadline, &ok)) {
      late = true;
      if (!call->Cancel(&ok)) {
        call->Leave();
        Leak(std::move(call));
        return CallGate::Get().exiting() ? Exiting(subject) : too_late();
      }
    }
    call->reader.reset();
    PutQueue(call->Finish());
    if (late && call->status.error_code() == grpc::StatusCode::CANCELLED) return too_late();
    if (call->status.ok()) {
      Count(call->reply);
      *reply = std::move(call->reply);
    }
    return Convert(subject, call->status);
  }

  template <typename Request, typename Reply>
  using PrepareStream = std::unique_ptr<grpc::ClientAsyncReader<Reply>> (Stub::*)(grpc::ClientContext*,
                                                                                  const Request&,
                                                                                  grpc::CompletionQueue*);

  // `next` gives how long to wait for the next message; `visit` is called outside of gRPC, and ends the stream by false.
  template <typename Request, typename Reply, typename Next, typename Visit>
  Status Stream(PrepareStream<Request, Reply> prepare, const Subject& subject, const Request& request,
                WatchCanceller::Impl* canceller, Next next, Visit visit) {
    struct Streaming : PendingCall {
      using PendingCall::PendingCall;
      Reply reply;
      grpc::Status status;
      std::unique_ptr<grpc::ClientAsyncReader<Reply>> reader;
    };
    TB_ASSIGN_OR_RETURN(std::unique_ptr<Streaming> call, Start<Streaming>(subject));
    // Lets Cancel reach the call while it lives.
    class Registration {
     public:
      Registration(WatchCanceller::Impl* canceller, grpc::ClientContext* context) : canceller_(canceller) {
        if (canceller_ == nullptr) return;
        MutexLock lock(canceller_->mutex);
        canceller_->context = context;
        if (canceller_->cancelled) context->TryCancel();
      }
      ~Registration() {
        if (canceller_ == nullptr) return;
        MutexLock lock(canceller_->mutex);
        canceller_->context = nullptr;
      }
      bool cancelled() const {
        if (canceller_ == nullptr) return false;
        MutexLock lock(canceller_->mutex);
        return canceller_->cancelled;
      }

     private:
      WatchCanceller::Impl* canceller_;
    };

    Count(request);
    bool ok = false;
    bool stopped = false;          // by visit
    std::optional<Duration> late;  // what was allowed; `waited` is what was taken of it
    Duration waited{0};
    bool lost = false;
    bool cancelled = false;
    {
      Registration registration(canceller, &call->context());
      call->reader = (stub.*prepare)(&call->context(), request, call->queue());
      call->reader->StartCall(call->tag());
      const auto await = [&] {
        const Duration patience = next();
        const TimePoint begin = Clock::Real().Now();
        if (call->Await(DeadlineAfter(begin, patience), &ok)) return true;
        late = patience;
        waited = Clock::Real().Now() - begin;
        lost = !call->Cancel(&ok);
        return false;
      };
      bool going = await() && ok;
      while (going) {
        call->reader->Read(&call->reply, call->tag());
        if (!await() || !ok) break;
        Count(call->reply);
        call->Leave();
        going = visit(call->reply);
        stopped = !going;
        if (!call->Enter()) lost = true;
        if (lost) break;
      }
      if (!lost) {
        if (stopped) call->context().TryCancel();
        call->reader->Finish(&call->status, call->tag());
        lost = !call->Await(DeadlineAfter(Clock::Real().Now(), std::chrono::seconds(30)), &ok);
      }
      cancelled = registration.cancelled();
    }
    if (lost) {
      call->Leave();
      Leak(std::move(call));
      if (CallGate::Get().exiting()) return Exiting(subject);
      return Late(subject, late ? waited : std::chrono::seconds(30), late.value_or(Duration{0}));
    }
    call->reader.reset();
    PutQueue(call->Finish());
    if (stopped || cancelled) return OkStatus();
    if (late && call->status.error_code() == grpc::StatusCode::CANCELLED) return Late(subject, waited, *late);
    return Convert(subject, call->status);
  }
};

namespace {

// gRPC's own switches of its threads; null where this gRPC has none to be found, and then a child whose parent forked at
// a bad instant may hang.
using SetThreads = void (*)(bool);
SetThreads g_set_timer_threads = nullptr;  // set once, before any fork handler is there
std::atomic<bool> g_timers_stopped{false};

SetThreads FindInGrpc(const char* symbol) {
  Dl_info library{};
  if (dladdr(reinterpret_cast<const void*>(&grpc_init), &library) == 0 || library.dli_fname == nullptr)
    return nullptr;
  void* const handle = dlopen(library.dli_fname, RTLD_NOLOAD | RTLD_LAZY);
  if (handle == nullptr) return nullptr;
  void* const found = dlsym(handle, symbol);
  dlclose(handle);
  return reinterpret_cast<SetThreads>(found);
}

}  // namespace

void Connection::StopTimers() {
  if (g_set_timer_threads == nullptr || g_timers_stopped.exchange(true)) return;
  g_set_timer_threads(false);
}

void Connection::StartTimers() {
  if (g_set_timer_threads == nullptr || !g_timers_stopped.exchange(false)) return;
  g_set_timer_threads(true);
}

// Note [poll, not epoll] gRPC's default engine keeps one epoll instance and one wake-up descriptor a process. Both are
// shared with a forked child, whose polling then takes events that the parent waits for: a call of the parent hangs until
// its deadline. The poll engine keeps nothing of the kind in the kernel, and a client has few descriptors to poll. The engine
// is chosen once a process, when gRPC starts: a program that uses gRPC before this library, and forks, sets
// GRPC_POLL_STRATEGY=poll itself.
//
// Note [gRPC's own threads at a fork] The timer thread may hold, at a fork, a lock that the child's first connection waits
// for: it is stopped for that instant. Two calls at once leave work to executor threads, which a child has not: they are
// ended at the start, and callers do that work themselves. (gRPC's grpc_prefork does both, but in 1.51 waits for ever
// where an executor destroys a call meanwhile; and Debian's build reads whether it may before main().)
Status Connection::CheckMayInit() {
  return grpc_is_initialized() != 0 ? OkStatus() : CheckDescriptorsLeft("Connect", kDescriptorsOfAChannel);
}

void Connection::InitLibrary() {
  [[maybe_unused]] static const bool once = [] {
    constexpr char kStrategy[] = "GRPC_POLL_STRATEGY";
    const bool chosen = std::getenv(kStrategy) != nullptr;
    const bool first = grpc_is_initialized() == 0;
    if (!chosen) setenv(kStrategy, "poll", 1);
    grpc_init();                       // never shut down: its end is the process's
    if (!chosen) unsetenv(kStrategy);  // not for the programs that this one starts
    g_set_timer_threads = FindInGrpc("_Z32grpc_timer_manager_set_threadingb");
    // Only now, while none of them has work.
    const SetThreads set_executors = FindInGrpc("_ZN9grpc_core8Executor15SetThreadingAllEb");
    if (first && set_executors != nullptr) set_executors(false);
    return true;
  }();
}

StatusOr<std::unique_ptr<Connection>> Connection::Make(const std::string& socket) {
  const GatePass pass;
  if (!pass.entered()) return UnavailableError("Connect: this process is exiting");
  TB_RETURN_IF_ERROR(CheckDescriptorsLeft("Connect", kDescriptorsOfAChannel));
  StartTimers();  // in a forked child
  return std::unique_ptr<Connection>(new Connection(std::make_unique<Impl>(socket, MakeChannel(socket))));
}

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::~Connection() { EndInGate(std::move(impl_)); }

int64_t Connection::wire_bytes() const { return impl_->wire_bytes.load(std::memory_order_relaxed); }
int32_t Connection::broker_pid() const { return impl_->broker_pid.load(); }

// ---- sessions

StatusOr<OpenedSession> Connection::OpenSession(const std::string& label, TimePoint deadline) {
  const Subject subject{"Connect"};
  v1::OpenSessionRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_client_version(kVersion);
  request.set_label(label);
  v1::OpenSessionReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncOpenSession, subject, request, &reply, deadline));
  StatusOr<OpenedSession> opened = FromProto(reply);
  if (!opened.ok()) return impl_->Malformed(subject, opened.status());
  if (opened->protocol_version != static_cast<uint32_t>(kProtocolVersion)) {
    return FailedPreconditionError(
        fmt::format("Connect: {} (version {}) speaks protocol version {}, this client (version {}) speaks "
                    "{}; upgrade the older one",
                    impl_->Broker(), QuoteForMessage(opened->broker_version), opened->protocol_version,
                    kVersion, kProtocolVersion));
  }
  impl_->session = reply.session_token();
  impl_->broker_pid = opened->broker_pid;
  return opened;
}

Status Connection::CloseSession(TimePoint deadline) {
  v1::CloseSessionRequest request;
  request.set_session(impl_->session);
  v1::CloseSessionReply reply;
  return impl_->Call(&Stub::PrepareAsyncCloseSession, {"CloseSession"}, request, &reply, deadline);
}

// ---- holds

StatusOr<Created> Connection::Create(CreateCall call, TimePoint deadline) {
  const Subject subject{"Create"};
  call.token = impl_->session;
  v1::CreateRequest request;
  ToProto(call, &request);
  v1::CreateReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncCreate, subject, request, &reply, deadline));
  auto created = FromProto(reply);
  if (!created.ok()) return impl_->Malformed(subject, created.status());
  return created;
}

namespace {

StatusOr<OpenedName> FromReply(const v1::OpenReply& reply) {
  TB_ASSIGN_OR_RETURN(Grant grant, FromProto(reply.grant()));
  TB_ASSIGN_OR_RETURN(Header header, FromProto(reply.header(), grant.device));
  return OpenedName{grant, std::move(header), reply.version()};
}

v1::OpenRequest OpenRequestOf(const std::string& session, uint64_t call_id, std::string_view name,
                              GrantAccess access) {
  v1::OpenRequest request;
  request.set_session(session);
  request.set_call_id(call_id);
  request.set_name(name.data(), name.size());
  request.set_access(ToProto(access));
  return request;
}

}  // namespace

StatusOr<OpenedName> Connection::Open(uint64_t call_id, std::string_view name, GrantAccess access,
                                      TimePoint deadline) {
  const Subject subject{"Open", name};
  v1::OpenReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncOpen, subject,
                                 OpenRequestOf(impl_->session, call_id, name, access), &reply, deadline));
  auto opened = FromReply(reply);
  if (!opened.ok()) return impl_->Malformed(subject, opened.status());
  return opened;
}

StatusOr<OpenedName> Connection::AwaitOpen(uint64_t call_id, std::string_view name, GrantAccess access,
                                           Duration timeout, TimePoint deadline) {
  const Subject subject{"Open", name};
  v1::AwaitOpenRequest request;
  *request.mutable_open() = OpenRequestOf(impl_->session, call_id, name, access);
  request.set_timeout_ns(timeout == kForever ? -1 : timeout.count());
  v1::OpenReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncAwaitOpen, subject, request, &reply, deadline));
  auto opened = FromReply(reply);
  if (!opened.ok()) return impl_->Malformed(subject, opened.status());
  return opened;
}

StatusOr<Grant> Connection::Attach(uint64_t call_id, StorageId storage, GrantAccess access,
                                   TimePoint deadline) {
  const Subject subject{"Attach", {}, storage};
  v1::AttachRequest request;
  request.set_session(impl_->session);
  request.set_call_id(call_id);
  ToProto(storage, request.mutable_storage());
  request.set_access(ToProto(access));
  v1::AttachReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncAttach, subject, request, &reply, deadline));
  auto grant = FromProto(reply.grant());
  if (!grant.ok()) return impl_->Malformed(subject, grant.status());
  return *grant;
}

StatusOr<std::vector<Grant>> Connection::ClaimInherited(const Token& parent,
                                                        const std::vector<StorageId>& storages,
                                                        TimePoint deadline) {
  const Subject subject{"ClaimInherited"};
  v1::ClaimInheritedRequest request;
  request.set_session(impl_->session);
  request.set_parent_session(parent.bytes().data(), parent.bytes().size());
  for (const StorageId storage : storages) ToProto(storage, request.add_storages());
  v1::ClaimInheritedReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncClaimInherited, subject, request, &reply, deadline));
  std::vector<Grant> grants;
  for (const v1::Grant& each : reply.grants()) {
    auto grant = FromProto(each);
    if (!grant.ok()) return impl_->Malformed(subject, grant.status());
    grants.push_back(*grant);
  }
  return grants;
}

Status Connection::Release(const Releases& releases, TimePoint deadline) {
  v1::ReleaseRequest request;
  request.set_session(impl_->session);
  ToProto(releases, request.mutable_releases());
  v1::ReleaseReply reply;
  return impl_->Call(&Stub::PrepareAsyncRelease, {"Release"}, request, &reply, deadline);
}

// ---- handles under way

StatusOr<Token> Connection::Export(uint64_t call_id, StorageId storage, GrantAccess access,
                                   TimePoint deadline) {
  const Subject subject{"Export", {}, storage};
  v1::ExportRequest request;
  request.set_session(impl_->session);
  request.set_call_id(call_id);
  ToProto(storage, request.mutable_storage());
  request.set_access(ToProto(access));
  v1::ExportReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncExport, subject, request, &reply, deadline));
  auto token = Token::FromBytes(reply.transfer_token());
  if (!token.ok()) return impl_->Malformed(subject, token.status());
  return *token;
}

StatusOr<Grant> Connection::Import(uint64_t call_id, StorageId storage, const Token& transfer,
                                   TimePoint deadline) {
  const Subject subject{"Import", {}, storage};
  v1::ImportRequest request;
  request.set_session(impl_->session);
  request.set_call_id(call_id);
  ToProto(storage, request.mutable_storage());
  request.set_transfer_token(transfer.bytes().data(), transfer.bytes().size());
  v1::ImportReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncImport, subject, request, &reply, deadline));
  auto grant = FromProto(reply.grant());
  if (!grant.ok()) return impl_->Malformed(subject, grant.status());
  return *grant;
}

// ---- names

StatusOr<uint64_t> Connection::Publish(std::string_view name, StorageId storage, const Header& header,
                                       const PublishOptions& options, TimePoint deadline) {
  v1::PublishRequest request;
  request.set_session(impl_->session);
  request.set_name(name.data(), name.size());
  ToProto(storage, request.mutable_storage());
  ToProto(header, request.mutable_header());
  request.set_replace(options.replace);
  request.set_lifetime(options.lifetime == NameLifetime::kSession ? v1::LIFETIME_SESSION
                                                                  : v1::LIFETIME_PERSISTENT);
  request.set_ttl_ns(options.ttl.count());
  v1::PublishReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncPublish, {"Publish", name}, request, &reply, deadline));
  return reply.version();
}

Status Connection::Unpublish(std::string_view name, TimePoint deadline) {
  TB_RETURN_IF_ERROR(Annotate(CheckName(name), "Unpublish"));
  v1::UnpublishRequest request;
  request.set_session(impl_->session);
  request.set_name(name.data(), name.size());
  v1::UnpublishReply reply;
  return impl_->Call(&Stub::PrepareAsyncUnpublish, {"Unpublish", name}, request, &reply, deadline);
}

Status Connection::Rename(std::string_view from, std::string_view to, bool replace, TimePoint deadline) {
  TB_RETURN_IF_ERROR(Annotate(CheckName(from), "Rename"));
  v1::RenameRequest request;
  request.set_session(impl_->session);
  request.set_from(from.data(), from.size());
  request.set_to(to.data(), to.size());
  request.set_replace(replace);
  v1::RenameReply reply;
  return impl_->Call(&Stub::PrepareAsyncRename, {"Rename", from}, request, &reply, deadline);
}

StatusOr<int64_t> Connection::Delete(StorageId storage, TimePoint deadline) {
  v1::DeleteRequest request;
  request.set_session(impl_->session);
  ToProto(storage, request.mutable_storage());
  v1::DeleteReply reply;
  TB_RETURN_IF_ERROR(
      impl_->Call(&Stub::PrepareAsyncDelete, {"Delete", {}, storage}, request, &reply, deadline));
  return static_cast<int64_t>(reply.holders());
}

// ---- operators

Status Connection::List(const ListOptions& options, Duration patience,
                        const std::function<void(StorageRecord)>& visit) {
  TB_RETURN_IF_ERROR(Annotate(CheckNamePrefix(options.prefix), "List"));
  const Subject subject{"List", options.prefix};
  v1::ListRequest request;
  request.set_session(impl_->session);
  request.set_prefix(options.prefix);
  request.set_holders(options.holders);
  Status malformed;
  const Status status = impl_->Stream(
      &Stub::PrepareAsyncList, subject, request, nullptr, [patience] { return patience; },
      [&](const v1::ListReply& reply) {
        for (const v1::StorageRecord& each : reply.storages()) {
          auto record = FromProto(each);
          if (!record.ok()) {
            malformed = impl_->Malformed(subject, record.status());
            return false;
          }
          visit(*std::move(record));
        }
        return true;
      });
  return malformed.ok() ? status : malformed;
}

StatusOr<std::vector<SessionRecord>> Connection::ListSessions(bool held, Duration patience) {
  v1::ListSessionsRequest request;
  request.set_session(impl_->session);
  request.set_held(held);
  std::vector<SessionRecord> sessions;
  TB_RETURN_IF_ERROR(impl_->Stream(
      &Stub::PrepareAsyncListSessions, {"ListSessions"}, request, nullptr, [patience] { return patience; },
      [&](const v1::ListSessionsReply& reply) {
        for (const v1::SessionRecord& each : reply.sessions()) sessions.push_back(FromProto(each));
        return true;
      }));
  return sessions;
}

StatusOr<StorageRecord> Connection::Stat(std::string_view name, TimePoint deadline) {
  TB_RETURN_IF_ERROR(Annotate(CheckName(name), "Stat"));
  const Subject subject{"Stat", name};
  v1::StatRequest request;
  request.set_session(impl_->session);
  request.set_name(name.data(), name.size());
  v1::StatReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncStat, subject, request, &reply, deadline));
  auto record = FromProto(reply.storage());
  if (!record.ok()) return impl_->Malformed(subject, record.status());
  return record;
}

StatusOr<StorageRecord> Connection::Stat(StorageId storage, TimePoint deadline) {
  const Subject subject{"Stat", {}, storage};
  v1::StatRequest request;
  request.set_session(impl_->session);
  ToProto(storage, request.mutable_storage());
  v1::StatReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncStat, subject, request, &reply, deadline));
  auto record = FromProto(reply.storage());
  if (!record.ok()) return impl_->Malformed(subject, record.status());
  return record;
}

StatusOr<BrokerInfo> Connection::Info(TimePoint deadline) {
  v1::InfoRequest request;
  request.set_session(impl_->session);
  v1::InfoReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncInfo, {"Info"}, request, &reply, deadline));
  return FromProto(reply.info());
}

StatusOr<int32_t> Connection::Stop(TimePoint deadline) {
  v1::StopRequest request;
  request.set_session(impl_->session);
  v1::StopReply reply;
  TB_RETURN_IF_ERROR(impl_->Call(&Stub::PrepareAsyncStop, {"Stop"}, request, &reply, deadline));
  return reply.pid();
}

Status Connection::Watch(std::string_view prefix, Duration patience, TimePoint end, WatchCanceller* canceller,
                         const std::function<void()>& on_ready,
                         const std::function<bool(const Event&)>& visit) {
  TB_RETURN_IF_ERROR(Annotate(CheckNamePrefix(prefix), "Watch"));
  v1::WatchRequest request;
  request.set_session(impl_->session);
  request.set_prefix(prefix.data(), prefix.size());
  bool ready = false;
  const auto next = [&] {
    if (!ready) return patience;
    return end == TimePoint::max() ? kForever : Duration(end - Clock::Real().Now());
  };
  const Status status = impl_->Stream(&Stub::PrepareAsyncWatch, {"Watch", prefix}, request,
                                      canceller == nullptr ? nullptr : canceller->impl_.get(), next,
                                      [&](const v1::WatchReply& reply) {
                                        if (!std::exchange(ready, true) && on_ready) on_ready();
                                        for (const v1::Event& event : reply.events()) {
                                          if (!visit(FromProto(event))) return false;
                                        }
                                        return true;
                                      });
  // Past `end` the stream was cancelled by us.
  if (ready && status.code() == StatusCode::kDeadlineExceeded && Clock::Real().Now() >= end)
    return OkStatus();
  return status;
}

}  // namespace tensorbroker::internal
