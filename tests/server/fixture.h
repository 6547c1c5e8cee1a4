// A Broker over heap memory, with a clock that the test moves and a host that does all at once.
#ifndef TENSORBROKER_TESTS_SERVER_FIXTURE_H_
#define TENSORBROKER_TESTS_SERVER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensorbroker/server/broker.h"
#include "tensorbroker/storage/heap_source.h"

namespace tensorbroker {

class FakeClock : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_.load())); }
  int64_t UnixNanos() const override { return kUnix + now_.load(); }
  void Advance(Duration by) { now_.fetch_add(by.count()); }

 private:
  static constexpr int64_t kUnix = 1'700'000'000'000'000'000;
  std::atomic<int64_t> now_{1'000'000'000};
};

// Does what may block at once, on the caller's thread, or when the test says so.
class FakeHost : public BrokerHost {
 public:
  void SessionOpened(uint64_t session, std::shared_ptr<const PeerIdentity>) override {
    opened.push_back(session);
  }
  void SessionEnded(uint64_t session) override { ended.push_back(session); }
  void SegmentRetired(uint64_t session, SegmentId segment) override {
    retired.emplace_back(session, segment);
  }
  void FlushAll() override {
    ++flushes;
    if (on_flush) on_flush();
  }
  void Reserve(std::function<void()> task) override {
    if (hold_reservations) {
      reservations.push_back(std::move(task));
    } else {
      task();
    }
  }
  void Reclaim(std::function<void()> task) override { task(); }
  void WakeAt(TimePoint when) override { wakes.push_back(when); }

  void RunReservations() {
    for (auto& task : std::exchange(reservations, {})) task();
  }

  std::vector<uint64_t> opened, ended;
  std::vector<std::pair<uint64_t, SegmentId>> retired;
  std::vector<TimePoint> wakes;
  int flushes = 0;
  std::function<void()> on_flush;
  bool hold_reservations = false;
  std::vector<std::function<void()>> reservations;
};

// One client process as the broker sees it.
struct Peer {
  std::unique_ptr<Connection> connection;
  SessionId id;
  std::string token;
  std::string lease_token;
  uint64_t calls = 0;
};

class BrokerTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kEpoch = 77;
  static constexpr uid_t kUid = 1000;
  static constexpr int64_t kCapacity = int64_t{1} << 20;

  explicit BrokerTest(Limits limits = {}, int64_t capacity = kCapacity, std::optional<gid_t> group = {})
      : budget_(capacity),
        allocator_(kEpoch, &source_, &budget_, nullptr, [this](SegmentId id) { broker_.SegmentRetired(id); }),
        broker_(MakeOptions(limits, group, &looks_), &allocator_, &budget_, &host_, clock_) {}
  ~BrokerTest() override {
    broker_.BeginStop();
    broker_.Clear();
    EXPECT_EQ(budget_.used_bytes(), 0) << "bytes that nobody gave back";
  }

  static BrokerOptions MakeOptions(Limits limits, std::optional<gid_t> group, int* looks) {
    BrokerOptions options;
    options.epoch = kEpoch;
    options.limits = limits;
    options.admission = {kUid, group};
    options.facts.gpu_note = "no GPU in a test";
    options.shortage_hint = "Raise it.";
    options.look = [looks](BrokerInfo&) { ++*looks; };
    options.same_process = [](const PeerIdentity& a, const PeerIdentity& b) {
      return a.uid == b.uid && a.pid == b.pid;
    };
    return options;
  }

  static std::unique_ptr<Connection> Connect(pid_t pid, uid_t uid = kUid) {
    auto peer = std::make_shared<PeerIdentity>();
    peer->uid = uid;
    peer->gid = uid;
    peer->pid = pid;
    return std::make_unique<Connection>(std::move(peer));
  }
  // A session that is not bound to a lease yet.
  Peer OpenUnbound(pid_t pid, uid_t uid = kUid) { return OpenUnbound(Connect(pid, uid)); }
  Peer OpenUnbound(std::unique_ptr<Connection> connection) {
    Peer peer;
    peer.connection = std::move(connection);
    const std::string label = "client-" + std::to_string(peer.connection->peer->pid);
    const auto session = broker_.OpenSession(*peer.connection, 1, "test", label);
    EXPECT_TRUE(session.ok()) << session.status();
    peer.id = session->id;
    peer.token = session->token.bytes();
    peer.lease_token = session->lease_token.bytes();
    return peer;
  }
  Peer Open(pid_t pid, uid_t uid = kUid) { return Open(Connect(pid, uid)); }
  Peer Open(std::unique_ptr<Connection> connection) {
    Peer peer = OpenUnbound(std::move(connection));
    const auto bound = broker_.BindLease(peer.lease_token, *peer.connection->peer);
    EXPECT_TRUE(bound.ok()) << bound.status();
    return peer;
  }

  StatusOr<Grant> Create(Peer& peer, int64_t bytes) {
    CreateCall call;
    call.token = peer.token;
    call.call_id = ++peer.calls;
    call.size_bytes = bytes;
    return Create(peer, std::move(call));
  }
  StatusOr<Grant> Create(Peer& peer, CreateCall call) {
    StatusOr<Grant> result = InternalError("done was not called");
    broker_.Create(*peer.connection, std::move(call), std::make_shared<std::atomic<bool>>(false),
                   [&result](StatusOr<Created> created) {
                     if (created.ok()) {
                       result = created->grant;
                     } else {
                       result = created.status();
                     }
                   });
    return result;
  }
  StorageId Made(Peer& peer, int64_t bytes = 4096) {
    const auto grant = Create(peer, bytes);
    EXPECT_TRUE(grant.ok()) << grant.status();
    return grant.ok() ? grant->storage : StorageId{};
  }
  PublishCall PublishOf(Peer& peer, std::string name, StorageId storage) {
    PublishCall call;
    call.token = peer.token;
    call.name = std::move(name);
    call.storage = storage;
    call.header = *Header::Contiguous({4}, DType::kUInt8);
    return call;
  }
  StatusOr<uint64_t> Publish(Peer& peer, std::string name, StorageId storage, bool replace = false) {
    PublishCall call = PublishOf(peer, std::move(name), storage);
    call.replace = replace;
    return broker_.Publish(*peer.connection, call);
  }
  StatusOr<Opened> OpenName(Peer& peer, std::string name, GrantAccess access = GrantAccess::kReadOnly) {
    return broker_.Open(*peer.connection, {peer.token, ++peer.calls, std::move(name), access});
  }
  StatusOr<Opened> Attach(Peer& peer, StorageId storage) {
    return broker_.Attach(*peer.connection, {peer.token, ++peer.calls, storage, GrantAccess::kReadOnly});
  }
  void Release(Peer& peer, StorageId storage, uint64_t grants = 1) {
    EXPECT_TRUE(broker_.Release(*peer.connection, peer.token, {0, {{storage, grants}}, {}}).ok());
  }
  void Abandon(Peer& peer, std::vector<uint64_t> calls) {
    EXPECT_TRUE(broker_.Release(*peer.connection, peer.token, {0, {}, calls}).ok());
  }
  StatusOr<StorageRecord> Stat(Peer& peer, StorageId storage) {
    return broker_.StatStorage(*peer.connection, peer.token, storage);
  }
  // How many sessions hold it, as `peer` sees it; -1: it is gone.
  int Holders(Peer& peer, StorageId storage) {
    const auto record = Stat(peer, storage);
    return record.ok() ? static_cast<int>(record->holder_count) : -1;
  }

  int looks_ = 0;  // at the machine
  FakeClock clock_;
  FakeHost host_;
  HeapSource source_;
  Budget budget_;
  SegmentPerStorage allocator_;
  Broker broker_;
};

// The code of a Status or StatusOr.
inline StatusCode CodeOf(const Status& status) { return status.code(); }
template <typename T>
StatusCode CodeOf(const StatusOr<T>& result) {
  return result.status().code();
}
inline std::string TextOf(const Status& status) { return std::string(Message(status)); }

}  // namespace tensorbroker

#endif  // TENSORBROKER_TESTS_SERVER_FIXTURE_H_
