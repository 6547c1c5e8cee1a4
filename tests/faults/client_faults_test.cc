// Clients that write rubbish, close abruptly, or stand still.
#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "tests/multiprocess/harness/fixture.h"
#include "tests/multiprocess/harness/raw_client.h"

namespace tensorbroker::testing {
namespace {

class ClientFaults : public MultiprocessTest {};

std::string Describe(const StorageRecord& record) {
  std::string text = fmt::format("{} {} {} {} {}", ToString(record.id), record.size_bytes,
                                 record.reserved_bytes, Name(record.state), record.holder_count);
  if (record.header) text += " " + ToString(*record.header);
  for (const NameBinding& name : record.names) {
    text += fmt::format(" {} v{} {}", name.name, name.version, ToString(name.header));
  }
  return text;
}

// Case F5.
TEST_F(ClientFaults, AStorageFullOf0xFFChangesNothingThatTheBrokerSays) {
  StartBroker();
  Agent& a = StartAgent("A");
  std::vector<StorageId> ids;
  for (int i = 0; i < 3; ++i) {  // small, a page, and large ones
    const std::string t = std::to_string(i);
    const StatusOr<StorageId> id =
        a.Create(t, std::vector<int64_t>{64, 4096, 4 * kMiB}[static_cast<size_t>(i)], 1);
    TB_ASSERT_OK(id.status());
    TB_ASSERT_OK(a.Publish(t, "x/" + t));
    ids.push_back(*id);
  }
  const auto say = [&] {
    std::string text;
    TB_EXPECT_OK(
        inspector().List({.prefix = "x/"}, [&](const StorageRecord& r) { text += Describe(r) + "\n"; }));
    for (const StorageId id : ids) text += Describe(*Find(id)) + "\n";
    return text;
  };
  const std::string before = say();
  for (int i = 0; i < 3; ++i) TB_ASSERT_OK(a.FillWith(std::to_string(i), 0xFF));
  EXPECT_EQ(say(), before);
  Agent& b = StartAgent("B");
  for (const StorageId id : ids) TB_EXPECT_OK(b.Attach("t", id));
  TB_ASSERT_OK(b.Open("t", "x/2"));
  const StatusOr<std::string> header = b.HeaderOf("t");
  TB_ASSERT_OK(header.status());
  EXPECT_EQ(*header, fmt::format("uint8 ({},) strides (1,) offset 0 B cpu", 4 * kMiB));
}

// Case F6.
TEST_F(ClientFaults, ManyThreadsThatConnectAttachAndCloseAbruptlyLeaveNothingBehind) {
  StartBroker();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  const uint64_t sessions = Info().sessions;
  const int rounds = LongOr(1000, kSanitized ? 25 : 300);
  std::atomic<int> attached{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 32; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < rounds; ++round) {
        StatusOr<RawClient> raw = RawClient::WithSession(socket());
        if (!raw.ok()) {
          ADD_FAILURE() << raw.status();
          return;
        }
        const StatusOr<wire::Grant> grant = raw->Attach(ToWire(*id), round % 2 == 0);
        if (!grant.ok()) {
          ADD_FAILURE() << grant.status();
          return;
        }
        // Some fetch the descriptor, some ask for it and do not wait.
        if ((i + round) % 3 == 0) TB_EXPECT_OK(raw->GetSegment(grant->segment(), false).status());
        if ((i + round) % 3 == 1) {
          raw->lease().Send({.type = LeaseType::kGetSegment,
                             .request = 9,
                             .epoch = grant->segment().epoch(),
                             .serial = grant->segment().serial()});
        }
        ++attached;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(attached, 32 * rounds);
  EXPECT_TRUE(Eventually(kHang, [&] { return Info().sessions == sessions; })) << Info().sessions;
  EXPECT_EQ(Holders(*id), 1);
  TB_EXPECT_OK(a.Check("t", 1));
}

// Broken bytes end the connection they came on, and nothing else.
TEST_F(ClientFaults, RubbishOnTheSocketEndsThatConnectionOnly) {
  StartBroker();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  for (const std::string& bytes :
       {std::string("X"), std::string("TBL2") + std::string(36, 'x'), std::string(4096, 'T'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(4096, '\xFF'),
        EncodeLeaseFrame({.type = LeaseType::kBind, .request = 1, .payload = std::string(16, 'a')}),
        EncodeLeaseFrame({.type = LeaseType::kGetSegment, .request = 1, .epoch = id->epoch, .serial = 1})}) {
    StatusOr<RawLease> lease = RawLease::Connect(socket());
    TB_ASSERT_OK(lease.status());
    (void)lease->SendBytes(bytes);
    EXPECT_TRUE(lease->HungUp()) << "after " << bytes.substr(0, 8);
  }
  EXPECT_EQ(Holders(*id), 1);
  TB_EXPECT_OK(a.Check("t", 1));
  TB_EXPECT_OK(a.Create("u", 4096, 1).status());
}

int ThreadsOf(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  std::string word;
  int threads = -1;
  while (status >> word && word != "Threads:") {
  }
  status >> threads;
  return threads;
}

std::string Http2Frame(char type, char flags, uint32_t stream, std::string_view payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(length >> shift);
  frame += type;
  frame += flags;
  for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift);
  return frame.append(payload);
}

// Calls of whoever may connect, thousands a connection, without a session and without waiting for an answer: none costs a
// thread. (gRPC's limit of streams binds only once the peer has acknowledged it, which this one never does.)
TEST_F(ClientFaults, AFloodOfCallsCostsNoThreadsAndOthersAreServed) {
  StartBroker();
  const auto literal = [](std::string_view text) {
    return std::string(1, static_cast<char>(text.size())).append(text);
  };
  std::string headers = "\x83\x86";  // POST, http
  for (const auto& [name, value] :
       {std::pair(":path", "/tensorbroker.v1.Broker/Info"), std::pair(":authority", "x"),
        std::pair("content-type", "application/grpc"), std::pair("te", "trailers")}) {
    headers += '\0' + literal(name) + literal(value);
  }
  constexpr char kData = 0, kHeaders = 1, kReset = 3, kSettings = 4;
  constexpr char kEndStream = 1, kEndHeaders = 4;
  const std::string bad_message("\0\0\0\0\3\xff\xff\xff", 8);
  const std::string cancel("\0\0\0\x8", 4);
  const auto half = [&](uint32_t stream) { return Http2Frame(kHeaders, kEndHeaders, stream, headers); };
  const std::vector<std::function<std::string(uint32_t)>> floods = {
      half, [&](uint32_t stream) { return half(stream) + Http2Frame(kReset, 0, stream, cancel); },
      [&](uint32_t stream) { return half(stream) + Http2Frame(kData, kEndStream, stream, bad_message); }};
  for (const auto& flood : floods) {
    StatusOr<RawLease> peer = RawLease::Connect(socket());
    TB_ASSERT_OK(peer.status());
    std::string bytes = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + Http2Frame(kSettings, 0, 0, "");
    for (uint32_t call = 0; call < 5'000; ++call) bytes += flood(2 * call + 1);
    (void)peer->SendBytes(bytes);
    EXPECT_LT(ThreadsOf(broker().pid()), 64);
    TB_EXPECT_OK(StartAgent("other").Create("t", 4096, 1).status());
    EXPECT_LT(ThreadsOf(broker().pid()), 64);
  }
}

// Case P5. The case's 60 s are one here: no timer of the broker is between the two.
TEST_F(ClientFaults, AStoppedClientKeepsItsHoldsUntilItIsKilled) {
  StartBroker();
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", kMiB, 1);
  TB_ASSERT_OK(id.status());
  a.Signal(SIGSTOP);
  siginfo_t stopped{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(a.pid()), &stopped, WSTOPPED | WNOWAIT), 0);
  const auto lost = [&](const Event& event) {
    return event.storage == *id && (event.kind == EventKind::kReleased || event.kind == EventKind::kFreed);
  };
  EXPECT_FALSE(events.WaitFor(lost, std::chrono::seconds(LongOr(60, 1))));
  EXPECT_EQ(Holders(*id), 1);
  a.Kill();
  EXPECT_TRUE(events.WaitForFreed(*id, 1s * kSlack));
  EXPECT_TRUE(BooksAt(u0));
}

// A client that does not read its lease's notices neither stops the broker nor loses its session.
TEST_F(ClientFaults, AStoppedClientStopsNobodyElse) {
  StartBroker();
  Agent& a = StartAgent("A");
  Agent& b = StartAgent("B");
  for (int i = 0; i < 50; ++i) {
    TB_ASSERT_OK(b.Create(std::to_string(i), 4096, 1).status());
    TB_ASSERT_OK(b.Publish(std::to_string(i), fmt::format("x/{}", i)));
    TB_ASSERT_OK(a.Open(std::to_string(i), fmt::format("x/{}", i)));
  }
  a.Signal(SIGSTOP);
  siginfo_t stopped{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(a.pid()), &stopped, WSTOPPED | WNOWAIT), 0);
  const TimePoint start = Clock::Real().Now();
  for (int i = 0; i < 50; ++i) {
    TB_ASSERT_OK(b.Drop(std::to_string(i)));
    const StatusOr<StorageRecord> record = inspector().Stat(fmt::format("x/{}", i));
    TB_ASSERT_OK(record.status());
    TB_ASSERT_OK(b.Delete(record->id));
  }
  TB_ASSERT_OK(b.Create("t", 4096, 1).status());
  EXPECT_LE(Clock::Real().Now() - start, 5s * kSlack);
  a.Signal(SIGCONT);
  TB_EXPECT_OK(a.Check("7", 1));
  TB_EXPECT_OK(a.Do({"drop-all"}));
  TB_EXPECT_OK(a.Flush());
  TB_EXPECT_OK(a.Create("t", 4096, 1).status());
}

}  // namespace
}  // namespace tensorbroker::testing
