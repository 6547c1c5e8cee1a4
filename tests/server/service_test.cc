// The whole broker in this process, over its real socket: what hostile bytes, half-open connections and random requests do.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <random>
#include <span>
#include <thread>

#include "tensorbroker/ipc/lease.h"
#include "tensorbroker/ipc/socket.h"
#include "tensorbroker/proto/convert.h"
#include "tensorbroker/server/daemon.h"
#include "tensorbroker/v1/broker.grpc.pb.h"
#include "tests/server/fixture.h"

namespace tensorbroker {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using std::chrono::milliseconds;
using std::chrono::seconds;
namespace fs = std::filesystem;

class Service : public ::testing::Test {
 protected:
  Service() {
    std::string path = fs::temp_directory_path() / "tb-service-XXXXXX";
    root_ = mkdtemp(path.data());
    options_.memory = SourceKind::kMemfd;
    options_.capacity_bytes = 64 << 20;
    options_.socket = root_ + "/b.sock";
    options_.log_level = LogLevel::kOff;
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    options_.ready_fd = ready[1];
    const Fd wait(ready[0]);
    daemon_ = std::thread([this] { status_ = RunDaemon(options_); });
    char byte = 0;
    EXPECT_EQ(read(wait.get(), &byte, 1), 1) << "the broker did not start";
    Connect();
  }
  ~Service() override {
    Connect();
    grpc::ClientContext context;
    v1::StopRequest request;
    request.set_session(token_);
    v1::StopReply reply;
    EXPECT_TRUE(stub_->Stop(&context, request, &reply).ok());
    daemon_.join();
    EXPECT_TRUE(status_.ok()) << status_;
    EXPECT_TRUE(fs::is_empty(root_)) << "socket and lock are removed";
    fs::remove_all(root_);
  }

  // A gRPC channel and a session whose lease is bound.
  void Connect() {
    lease_.reset();
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ =
        grpc::CreateCustomChannel("unix:" + options_.socket, grpc::InsecureChannelCredentials(), arguments);
    stub_ = v1::Broker::NewStub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    v1::OpenSessionRequest request;
    request.set_protocol_version(1);
    v1::OpenSessionReply reply;
    const grpc::Status status = stub_->OpenSession(&context, request, &reply);
    ASSERT_TRUE(status.ok()) << status.error_message();
    token_ = reply.session_token();
    auto lease = ConnectUnix(options_.socket, seconds(5));
    ASSERT_TRUE(lease.ok()) << lease.status();
    lease_ = *std::move(lease);
    LeaseFrame bind;
    bind.type = LeaseType::kBind;
    bind.request = 1;
    bind.payload = reply.lease_token();
    Send(lease_, EncodeLeaseFrame(bind));
    EXPECT_EQ(Receive(lease_).type, LeaseType::kBound);
  }

  static void Send(const Fd& socket, std::string_view bytes) {
    EXPECT_TRUE(SendWithFd(socket.get(), std::as_bytes(std::span(bytes)), -1).ok());
  }
  // The next frame; a default one where the broker hung up.
  static LeaseFrame Receive(const Fd& socket, Fd* fd = nullptr) {
    LeaseDecoder decoder;
    for (;;) {
      if (auto frame = decoder.Pop()) return *frame;
      std::array<std::byte, kLeaseHeaderBytes> buffer;
      auto received = RecvWithFd(socket.get(), buffer);
      if (!received.ok() || received->closed()) return {};
      if (fd != nullptr && received->fd.valid()) *fd = std::move(received->fd);
      if (!decoder.Push({reinterpret_cast<const char*>(buffer.data()), received->bytes}).ok()) return {};
    }
  }
  // True where the broker hangs up on `socket` in time.
  static bool HangsUp(const Fd& socket, Duration timeout) {
    pollfd wait{socket.get(), POLLIN, 0};
    const TimePoint deadline = Clock::Real().Now() + timeout;
    while (Clock::Real().Now() < deadline) {
      if (poll(&wait, 1, 100) <= 0) continue;
      std::array<std::byte, 512> buffer;
      const auto received = RecvWithFd(socket.get(), buffer, MSG_DONTWAIT);
      if (!received.ok() || received->closed()) return true;
    }
    return false;
  }
  // How many waits the broker keeps; -1 where it does not answer.
  int64_t PendingWaits() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    v1::InfoRequest request;
    request.set_session(token_);
    v1::InfoReply reply;
    if (!stub_->Info(&context, request, &reply).ok()) return -1;
    for (const auto& limit : reply.info().limits())
      if (limit.name() == "pending waits") return limit.used();
    return -1;
  }
  bool Answers() {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + seconds(10));
    v1::InfoRequest request;
    request.set_session(token_);
    v1::InfoReply reply;
    return stub_->Info(&context, request, &reply).ok() && reply.info().capacity_bytes() == 64 << 20;
  }
  Fd Raw() {
    auto socket = ConnectUnix(options_.socket, seconds(5));
    EXPECT_TRUE(socket.ok()) << socket.status();
    return *std::move(socket);
  }

  std::string root_;
  DaemonOptions options_;
  std::thread daemon_;
  Status status_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Broker::Stub> stub_;
  std::string token_;
  Fd lease_;
};

TEST_F(Service, ASegmentComesOnTheLeaseAndIsToldWhenItGoes) {
  v1::CreateRequest create;
  create.set_session(token_);
  create.set_call_id(1);
  create.set_size_bytes(2 << 20);
  v1::CreateReply created;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Create(&context, create, &created).ok());
  LeaseFrame get;
  get.type = LeaseType::kGetSegment;
  get.request = 2;
  get.epoch = created.grant().segment().epoch();
  get.serial = created.grant().segment().serial();
  get.argument = 1;
  Send(lease_, EncodeLeaseFrame(get));
  Fd fd;
  const LeaseFrame segment = Receive(lease_, &fd);
  EXPECT_EQ(segment.type, LeaseType::kSegment);
  EXPECT_EQ(segment.request, 2u);
  EXPECT_EQ(segment.argument, static_cast<uint64_t>(created.grant().segment_size_bytes()));
  ASSERT_TRUE(fd.valid());
  EXPECT_TRUE(Mapping::Map(fd, 0, 2 << 20, Access::kReadWrite).ok());
  v1::ReleaseRequest release;
  release.set_session(token_);
  *release.mutable_releases()->add_returned()->mutable_storage() = created.grant().storage();
  release.mutable_releases()->mutable_returned(0)->set_grants(1);
  v1::ReleaseReply released;
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->Release(&second, release, &released).ok());
  const LeaseFrame retired = Receive(lease_);
  EXPECT_EQ(retired.type, LeaseType::kSegmentRetired);
  EXPECT_EQ(retired.serial, get.serial);
  get.serial += 100;
  Send(lease_, EncodeLeaseFrame(get));
  EXPECT_EQ(LeaseErrorStatus(Receive(lease_)).code(), StatusCode::kNotFound);
}

TEST_F(Service, GarbageFirstBytesAreHungUpOn) {  // Case F9.
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const Fd socket = Raw();
    std::string bytes(1 + random() % 200, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    // Some get past the first byte.
    if (i % 3 == 1) bytes[0] = 'P';
    if (i % 3 == 2) bytes[0] = 'T';
    Send(socket, bytes);
    if (i % 3 == 0 && bytes[0] != 'P' && bytes[0] != 'T') {
      EXPECT_TRUE(HangsUp(socket, seconds(5)));
    }
  }
  EXPECT_TRUE(Answers());
}

TEST_F(Service, ALeaseThatIsNoneIsHungUpOnAndEndsNothingElse) {
  const Fd unbound = Raw();
  LeaseFrame get;
  get.type = LeaseType::kGetSegment;
  Send(unbound, EncodeLeaseFrame(get));
  EXPECT_TRUE(HangsUp(unbound, seconds(5)));
  const Fd guessed = Raw();
  LeaseFrame bind;
  bind.type = LeaseType::kBind;
  bind.payload = std::string(16, 'x');
  Send(guessed, EncodeLeaseFrame(bind));
  EXPECT_EQ(LeaseErrorStatus(Receive(guessed)).code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(Answers());
}

TEST_F(Service, AClientThatDoesNotReadItsLeaseStopsNobody) {
  LeaseFrame get;
  get.type = LeaseType::kGetSegment;
  get.request = 7;
  const std::string frame = EncodeLeaseFrame(get);
  // More requests than both sockets' buffers take answers for; the broker stops reading instead of keeping them.
  for (int i = 0; i < 200'000; ++i) {
    const auto sent = SendWithFd(lease_.get(), std::as_bytes(std::span(frame)), -1, MSG_DONTWAIT);
    ASSERT_TRUE(sent.ok()) << sent.status();
    if (*sent < frame.size()) break;
  }
  EXPECT_TRUE(Answers());
}

TEST_F(Service, HalfOpenConnectionsAreClosedAfterFiveSecondsAndMeanwhileOthersAreServed) {
  std::vector<Fd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(Raw());
  std::vector<Fd> prefaced;
  for (int i = 0; i < 20; ++i) {
    prefaced.push_back(Raw());
    Send(prefaced.back(), "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
  }
  EXPECT_TRUE(Answers());
  for (const Fd& socket : silent) EXPECT_TRUE(HangsUp(socket, seconds(10)));
  for (const Fd& socket : prefaced) EXPECT_TRUE(HangsUp(socket, seconds(10)));
  EXPECT_TRUE(Answers());
}

TEST_F(Service, AnAwaitedOpenIsAnsweredAndACancelledOneForgotten) {
  v1::AwaitOpenRequest request;
  request.mutable_open()->set_session(token_);
  request.mutable_open()->set_name("n");
  request.set_timeout_ns(-1);
  grpc::ClientContext cancelled;
  cancelled.set_deadline(std::chrono::system_clock::now() + milliseconds(50));
  v1::OpenReply reply;
  EXPECT_EQ(stub_->AwaitOpen(&cancelled, request, &reply).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  // The broker may learn of it a little after the client.
  const TimePoint deadline = Clock::Real().Now() + seconds(10);
  while (PendingWaits() != 0 && Clock::Real().Now() < deadline) {
  }
  EXPECT_EQ(PendingWaits(), 0);
  request.set_timeout_ns(30'000'000);
  grpc::ClientContext due;
  const grpc::Status status = stub_->AwaitOpen(&due, request, &reply);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), ::testing::HasSubstr("AwaitOpen \"n\""));
}

TEST_F(Service, ALifetimeThatItDoesNotKnowIsRefused) {
  v1::CreateRequest create;
  create.set_session(token_);
  create.set_call_id(1);
  create.set_size_bytes(8);
  v1::CreateReply created;
  grpc::ClientContext first;
  ASSERT_TRUE(stub_->Create(&first, create, &created).ok());
  v1::PublishRequest publish;
  publish.set_session(token_);
  publish.set_name("n");
  *publish.mutable_storage() = created.grant().storage();
  ToProto(*Header::Contiguous({8}, DType::kUInt8), publish.mutable_header());
  publish.set_lifetime(static_cast<v1::Lifetime>(99));
  v1::PublishReply published;
  grpc::ClientContext second;
  EXPECT_EQ(stub_->Publish(&second, publish, &published).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  publish.set_lifetime(v1::LIFETIME_SESSION);
  grpc::ClientContext third;
  EXPECT_TRUE(stub_->Publish(&third, publish, &published).ok());
}

TEST_F(Service, AWatchBeginsWithAnEmptyMessageThenTells) {
  grpc::ClientContext context;
  v1::WatchRequest request;
  request.set_session(token_);
  const auto reader = stub_->Watch(&context, request);
  v1::WatchReply reply;
  ASSERT_TRUE(reader->Read(&reply));
  EXPECT_EQ(reply.events_size(), 0);
  v1::CreateRequest create;
  create.set_session(token_);
  v1::CreateReply created;
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->Create(&second, create, &created).ok());
  ASSERT_TRUE(reader->Read(&reply));
  ASSERT_GE(reply.events_size(), 1);
  EXPECT_EQ(reply.events(0).kind(), v1::EVENT_KIND_CREATED);
  context.TryCancel();
  while (reader->Read(&reply)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Answers());
}

// A client that does not read has one descriptor on its way, however many it asks for: what is on its way counts against
// the broker's uid.
TEST_F(Service, AClientThatDoesNotReadHasOneDescriptorOnItsWay) {
  v1::CreateRequest create;
  create.set_session(token_);
  create.set_call_id(1);
  create.set_size_bytes(4096);
  v1::CreateReply created;
  grpc::ClientContext context;
  ASSERT_TRUE(stub_->Create(&context, create, &created).ok());
  const Fd first = std::move(lease_);
  constexpr uint64_t kRequests = 10;
  for (uint64_t i = 0; i < kRequests; ++i) {
    LeaseFrame get;
    get.type = LeaseType::kGetSegment;
    get.request = 100 + i;
    get.epoch = created.grant().segment().epoch();
    get.serial = created.grant().segment().serial();
    Send(first, EncodeLeaseFrame(get));
  }
  Connect();  // on the broker's same thread: it has seen those by then
  int unread = 0;
  ASSERT_EQ(ioctl(first.get(), FIONREAD, &unread), 0);
  EXPECT_EQ(unread, static_cast<int>(kLeaseHeaderBytes));
  // One that reads gets all.
  for (uint64_t i = 0; i < kRequests; ++i) {
    Fd fd;
    const LeaseFrame answer = Receive(first, &fd);
    EXPECT_EQ(answer.type, LeaseType::kSegment);
    EXPECT_EQ(answer.request, 100 + i);
    EXPECT_TRUE(fd.valid());
  }
}

// ---- random requests

class RandomMessages {
 public:
  explicit RandomMessages(uint32_t seed) : random_(seed) {}

  // Fills some fields of `message` with values of all sizes; "session" with `token`, often.
  void Fill(Message& message, const std::string& token, int depth = 0) {
    const auto& type = *message.GetDescriptor();
    const auto& reflection = *message.GetReflection();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor* const field = type.field(i);
      const bool session = field->name() == "session" && field->type() == FieldDescriptor::TYPE_BYTES;
      if (session && random_() % 8 != 0) {
        reflection.SetString(&message, field, token);
        continue;
      }
      if (random_() % 4 == 0) continue;
      const size_t count = field->is_repeated() ? random_() % (random_() % 50 == 0 ? 100 : 5) : 1;
      for (size_t n = 0; n < count; ++n) FillOne(message, reflection, field, token, depth);
    }
  }
  std::string Bytes() {
    std::string bytes(random_() % 100, '\0');
    for (char& c : bytes) c = static_cast<char>(random_());
    return bytes;
  }
  uint32_t Next() { return random_(); }

 private:
  int64_t Number() {
    switch (random_() % 6) {
      case 0:
        return static_cast<int64_t>(uint64_t{random_()} << 32 | random_());
      case 1:
        return -static_cast<int64_t>(random_() % 100);
      case 2:
        return int64_t{1} << random_() % 63;
      case 3:
        return std::numeric_limits<int64_t>::max() - static_cast<int64_t>(random_() % 3);
      default:
        return random_() % 20;
    }
  }
  std::string Text() {
    static const char* const kTexts[] = {"n", "m", "a/b", "../x", "/x", "", "n\n", "\xC3\xA4"};
    return random_() % 20 == 0 ? std::string(random_() % 300, 'y') : kTexts[random_() % std::size(kTexts)];
  }
  void FillOne(Message& message, const google::protobuf::Reflection& reflection, const FieldDescriptor* field,
               const std::string& token, int depth) {
    const bool many = field->is_repeated();
    switch (field->cpp_type()) {
#define TB_FILL(CPPTYPE, Method, value)                                                                     \
  case FieldDescriptor::CPPTYPE:                                                                            \
    many ? reflection.Add##Method(&message, field, value) : reflection.Set##Method(&message, field, value); \
    break;
      TB_FILL(CPPTYPE_INT32, Int32, static_cast<int32_t>(Number()))
      TB_FILL(CPPTYPE_INT64, Int64, Number())
      TB_FILL(CPPTYPE_UINT32, UInt32, static_cast<uint32_t>(Number()))
      TB_FILL(CPPTYPE_UINT64, UInt64, static_cast<uint64_t>(Number()))
      TB_FILL(CPPTYPE_BOOL, Bool, random_() % 2 == 0)
      TB_FILL(CPPTYPE_DOUBLE, Double, 0.5)
      TB_FILL(CPPTYPE_FLOAT, Float, 0.5F)
      TB_FILL(CPPTYPE_ENUM, EnumValue, static_cast<int>(random_() % 20))
      TB_FILL(CPPTYPE_STRING, String, field->type() == FieldDescriptor::TYPE_BYTES ? Bytes() : Text())
#undef TB_FILL
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth < 4) {
          Fill(many ? *reflection.AddMessage(&message, field) : *reflection.MutableMessage(&message, field),
               token, depth + 1);
        }
        break;
    }
  }
  std::mt19937 random_;
};

TEST_F(Service, TenThousandRandomRequestsDoNotEndIt) {  // Case F9.
  const auto* const service =
      google::protobuf::DescriptorPool::generated_pool()->FindServiceByName("tensorbroker.v1.Broker");
  ASSERT_NE(service, nullptr);
  grpc::GenericStub generic(channel_);
  RandomMessages random(20);
  for (int i = 0; i < 10'000; ++i) {
    const auto* const method = service->method(static_cast<int>(random.Next() % service->method_count()));
    std::unique_ptr<Message> request(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(method->input_type())->New());
    // A Stop that is allowed would end the test, and a CloseSession what most requests are about.
    const bool ends = method->name() == "Stop" || method->name() == "CloseSession";
    random.Fill(*request, ends ? std::string(16, 'x') : token_);
    std::string bytes = i % 10 == 0 ? random.Bytes() : request->SerializeAsString();
    if (i % 10 == 1 && !bytes.empty())
      bytes[random.Next() % bytes.size()] ^= static_cast<char>(1 + random.Next() % 255);
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer body(&slice, 1);
    grpc::ByteBuffer reply;
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() +
                         milliseconds(method->name() == "Watch" ? 5 : 200));
    std::promise<grpc::Status> done;
    generic.UnaryCall(&context, "/tensorbroker.v1.Broker/" + method->name(), grpc::StubOptions(), &body,
                      &reply, [&done](grpc::Status status) { done.set_value(std::move(status)); });
    const grpc::Status status = done.get_future().get();
    ASSERT_LE(status.error_message().size(), kMaxMessageBytes);
    ASSERT_EQ(status.error_message().find(root_), std::string::npos) << status.error_message();  // Case S1.
    ASSERT_EQ(status.error_message().find(token_), std::string::npos);
  }
  EXPECT_TRUE(Answers());
}

}  // namespace
}  // namespace tensorbroker
