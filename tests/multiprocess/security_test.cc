// Who may what: names, tokens, descriptors, directories, other uids.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "tensorbroker/ipc/socket.h"
#include "tests/multiprocess/harness/fixture.h"
#include "tests/multiprocess/harness/raw_client.h"
#include "tests/multiprocess/harness/words.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {
namespace {

using Stub = wire::Broker::Stub;

class Security : public MultiprocessTest {};

// All that a raw peer hears: replies and errors, as text.
class Ear {
 public:
  explicit Ear(RawClient* raw) : raw_(raw) {}
  template <typename Request, typename Reply>
  Status Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Reply*),
              const Request& request, Reply* reply) {
    const Status status = raw_->Call(method, request, reply);
    heard_ += std::string(Message(status)) + "\n" + reply->ShortDebugString() + "\n";
    return status;
  }
  const std::string& heard() const { return heard_; }

 private:
  RawClient* raw_;
  std::string heard_;
};

// Case S1.
TEST_F(Security, BadNamesAreRefusedByEachCallAndNoReplyTellsAPathOrAToken) {
  StartBroker();
  StatusOr<RawClient> raw = RawClient::WithSession(socket());
  TB_ASSERT_OK(raw.status());
  const StatusOr<wire::Grant> grant = raw->Create(4096);
  TB_ASSERT_OK(grant.status());
  Ear ear(&*raw);
  const auto publish = [&](const std::string& name) {
    wire::PublishRequest request;
    request.set_session(raw->token());
    request.set_name(name);
    *request.mutable_storage() = grant->storage();
    request.mutable_header()->set_dtype(wire::DTYPE_UINT8);
    request.mutable_header()->add_shape(4096);
    request.mutable_header()->add_strides(1);
    wire::PublishReply reply;
    return ear.Call(&Stub::Publish, request, &reply);
  };
  TB_ASSERT_OK(publish("good"));
  uint64_t call = 1000;
  for (const std::string& bad :
       {std::string("../x"), std::string("/x"), std::string("///x"), std::string("a\0b", 3),
        std::string(300, 'n'), std::string("a\nb"), std::string("a\x1b[31mb"), std::string("a\x7f"),
        std::string(), std::string("a/"), std::string("a//b"), std::string("a/../b"), std::string("./a")}) {
    SCOPED_TRACE(ToHex(bad));
    TB_EXPECT_ERROR(publish(bad), kInvalidArgument);
    wire::OpenRequest open;
    open.set_session(raw->token());
    open.set_call_id(++call);
    open.set_name(bad);
    wire::OpenReply opened;
    TB_EXPECT_ERROR(ear.Call(&Stub::Open, open, &opened), kInvalidArgument);
    wire::AwaitOpenRequest await;
    open.set_call_id(++call);
    *await.mutable_open() = open;
    await.set_timeout_ns(1'000'000);
    TB_EXPECT_ERROR(ear.Call(&Stub::AwaitOpen, await, &opened), kInvalidArgument);
    wire::RenameRequest rename;
    rename.set_session(raw->token());
    rename.set_from("good");
    rename.set_to(bad);
    wire::RenameReply renamed;
    TB_EXPECT_ERROR(ear.Call(&Stub::Rename, rename, &renamed), kInvalidArgument);
    rename.set_from(bad);
    rename.set_to("better");
    TB_EXPECT_ERROR(ear.Call(&Stub::Rename, rename, &renamed), kInvalidArgument);
    wire::UnpublishRequest unpublish;
    unpublish.set_session(raw->token());
    unpublish.set_name(bad);
    wire::UnpublishReply unpublished;
    TB_EXPECT_ERROR(ear.Call(&Stub::Unpublish, unpublish, &unpublished), kInvalidArgument);
    // And the library says the same, without a control character in its message.
    const Status refused = client().Open(bad).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument) << refused;
    for (const char c : Message(refused)) EXPECT_GE(static_cast<unsigned char>(c), ' ');
  }
  // Errors of other kinds, and what operators ask.
  wire::StatRequest stat;
  stat.set_session(raw->token());
  stat.set_name("good");
  wire::StatReply record;
  TB_EXPECT_OK(ear.Call(&Stub::Stat, stat, &record));
  wire::InfoRequest info;
  info.set_session(raw->token());
  wire::InfoReply about;
  TB_EXPECT_OK(ear.Call(&Stub::Info, info, &about));
  wire::CreateRequest create;
  create.set_session(raw->token());
  create.set_call_id(++call);
  create.set_size_bytes(int64_t{1} << 60);
  wire::CreateReply created;
  TB_EXPECT_ERROR(ear.Call(&Stub::Create, create, &created), kResourceExhausted);
  for (const std::string& secret :
       {broker().shm_dir(), socket(), std::string("tensorbroker-"), ToHex(raw->token()), raw->token()}) {
    EXPECT_EQ(ear.heard().find(secret), std::string::npos) << secret << "\nin: " << ear.heard();
  }
  EXPECT_EQ(ear.heard().find_first_of(std::string_view("\0\x1b\x7f", 3)), std::string::npos);
}

// Case S3.
TEST_F(Security, NobodyReleasesAnothersHoldsOrUsesItsTokens) {
  StartBroker();
  StatusOr<RawClient> a = RawClient::WithSession(socket());
  StatusOr<RawClient> b = RawClient::WithSession(socket());
  TB_ASSERT_OK(a.status());
  TB_ASSERT_OK(b.status());
  const StatusOr<wire::Grant> grant = a->Create(4096);
  TB_ASSERT_OK(grant.status());
  const StorageId id = FromWire(grant->storage());
  ASSERT_EQ(Holders(id), 1);

  // B gives back what it never had.
  wire::ReleaseRequest release;
  release.set_session(b->token());
  wire::Returned& returned = *release.mutable_releases()->add_returned();
  *returned.mutable_storage() = grant->storage();
  returned.set_grants(1000);
  wire::ReleaseReply released;
  TB_EXPECT_OK(b->Call(&Stub::Release, release, &released));
  EXPECT_EQ(Holders(id), 1);
  // B publishes, exports and fetches what it does not hold.
  wire::ExportRequest request_export;
  request_export.set_session(b->token());
  *request_export.mutable_storage() = grant->storage();
  wire::ExportReply exported;
  EXPECT_FALSE(b->Call(&Stub::Export, request_export, &exported).ok());
  EXPECT_FALSE(b->GetSegment(grant->segment(), false).ok());
  // A reader's hold gives no writable descriptor.
  TB_ASSERT_OK(b->Attach(grant->storage(), false).status());
  TB_EXPECT_OK(b->GetSegment(grant->segment(), false).status());
  EXPECT_FALSE(b->GetSegment(grant->segment(), true).ok());

  // Guessed tokens.
  for (const std::string& guess : {std::string(16, '\0'), std::string(16, 'x'), std::string(),
                                   a->token().substr(0, 15), a->token() + "x", a->lease_token()}) {
    release.set_session(guess);
    TB_EXPECT_ERROR(a->Call(&Stub::Release, release, &released), kUnauthenticated);
    wire::InfoRequest info;
    info.set_session(guess);
    wire::InfoReply about;
    TB_EXPECT_ERROR(a->Call(&Stub::Info, info, &about), kUnauthenticated);
  }
  // A lease token works once.
  StatusOr<RawLease> replay = RawLease::Connect(socket());
  TB_ASSERT_OK(replay.status());
  replay->Send({.type = LeaseType::kBind, .request = 1, .payload = a->lease_token()});
  const std::optional<LeaseFrame> answer = replay->Receive();
  EXPECT_TRUE(!answer || answer->type == LeaseType::kError);
  EXPECT_EQ(Holders(id), 2);
  TB_EXPECT_OK(a->GetSegment(grant->segment(), true).status());
}

// Makes a call with a token that the test gives it; tells the code.
TB_CHILD(UseStolenToken) {
  const std::optional<std::string> token = channel.Receive();
  RawClient raw(arguments.at(0));
  wire::InfoRequest info;
  info.set_session(*token);
  wire::InfoReply reply;
  channel.Send(CodeName(raw.Call(&Stub::Info, info, &reply).code()));
  // As a parent's session, too.
  const StatusOr<RawClient> own = RawClient::WithSession(arguments.at(0));
  if (!own.ok()) return 1;
  wire::ClaimInheritedRequest claim;
  claim.set_session(own->token());
  claim.set_parent_session(*token);
  StorageId id;
  if (!ParseId(*channel.Receive(), &id).ok()) return 2;
  *claim.add_storages() = ToWire(id);
  wire::ClaimInheritedReply claimed;
  RawClient again(arguments.at(0));
  const Status status = again.Call(&Stub::ClaimInherited, claim, &claimed);
  channel.Send(fmt::format("{} {}", CodeName(status.code()), claimed.grants_size()));
  // The end of this process ends its own session only.
  return 0;
}

// Case S3: a stolen session token is of no use in another process.
TEST_F(Security, AStolenSessionTokenIsRefusedFromAnotherProcess) {
  StartBroker();
  StatusOr<RawClient> a = RawClient::WithSession(socket());
  TB_ASSERT_OK(a.status());
  const StatusOr<wire::Grant> grant = a->Create(4096);
  TB_ASSERT_OK(grant.status());
  auto thief = ChildProcess::Spawn("UseStolenToken", {socket()});
  thief.Send(a->token());
  EXPECT_EQ(thief.Receive(), "UNAUTHENTICATED");
  thief.Send(ToString(FromWire(grant->storage())));
  (void)thief.Receive();  // the same uid may claim what it could attach as well
  EXPECT_EQ(thief.Wait(), 0);
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(FromWire(grant->storage())) == 1; }));
}

// Case S3: transfer tokens.
TEST_F(Security, ATransferTokenIsNotGuessedAndNotReplayed) {
  StartBroker();
  StatusOr<RawClient> a = RawClient::WithSession(socket());
  TB_ASSERT_OK(a.status());
  const StatusOr<wire::Grant> grant = a->Create(4096);
  TB_ASSERT_OK(grant.status());
  wire::ExportRequest request;
  request.set_session(a->token());
  *request.mutable_storage() = grant->storage();
  wire::ExportReply exported;
  TB_ASSERT_OK(a->Call(&Stub::Export, request, &exported));
  // The sender's hold goes: only the transfer hold keeps it.
  wire::ReleaseRequest release;
  release.set_session(a->token());
  wire::Returned& returned = *release.mutable_releases()->add_returned();
  *returned.mutable_storage() = grant->storage();
  returned.set_grants(1);
  wire::ReleaseReply released;
  TB_ASSERT_OK(a->Call(&Stub::Release, release, &released));
  StatusOr<RawClient> b = RawClient::WithSession(socket());
  TB_ASSERT_OK(b.status());
  wire::ImportRequest import;
  import.set_session(b->token());
  import.set_call_id(1);
  *import.mutable_storage() = grant->storage();
  wire::ImportReply imported;
  for (const std::string& guess : {std::string(16, 'x'), std::string(), std::string(16, '\0')}) {
    import.set_transfer_token(guess);
    import.set_call_id(import.call_id() + 1);
    EXPECT_FALSE(b->Call(&Stub::Import, import, &imported).ok());
  }
  import.set_transfer_token(exported.transfer_token());
  import.set_call_id(import.call_id() + 1);
  TB_ASSERT_OK(b->Call(&Stub::Import, import, &imported));
  EXPECT_EQ(Holders(FromWire(grant->storage())), 1);
  release.set_session(b->token());
  TB_ASSERT_OK(b->Call(&Stub::Release, release, &released));
  import.set_call_id(import.call_id() + 1);
  TB_EXPECT_ERROR(b->Call(&Stub::Import, import, &imported), kNotFound, "consumed");
}

// Tries all that a read-only descriptor must not allow; tells what worked.
std::string WhatADescriptorAllows(int fd, bool other_uid) {
  std::string allowed;
  const auto page = static_cast<size_t>(getpagesize());
  const char byte = 'x';
  if (ftruncate(fd, 0) == 0) allowed += "ftruncate ";
  if (ftruncate(fd, 1 << 30) == 0) allowed += "grow ";
  if (write(fd, &byte, 1) > 0) allowed += "write ";
  if (pwrite(fd, &byte, 1, 0) > 0) allowed += "pwrite ";
  if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(page)) == 0)
    allowed += "punch ";
  if (mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED) allowed += "mmap ";
  void* map = mmap(nullptr, page, PROT_READ, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return "nothing, not even to read";
  if (mprotect(map, page, PROT_READ | PROT_WRITE) == 0) allowed += "mprotect ";
  if (madvise(map, page, MADV_REMOVE) == 0) allowed += "madvise ";
  munmap(map, page);
  if (other_uid) {
    const std::string path = fmt::format("/proc/self/fd/{}", fd);
    for (const int flags : {O_RDWR, O_WRONLY, O_RDONLY}) {
      const Fd again(open(path.c_str(), flags | O_CLOEXEC));
      if (again.valid()) allowed += fmt::format("open({}) ", flags);
    }
    if (fchmod(fd, 0666) == 0) allowed += "chmod ";
  }
  return allowed;
}

TB_CHILD(TryADescriptor) {
  std::byte mark{};
  const StatusOr<Received> received = RecvWithFd(channel.fd(), {&mark, 1});
  if (!received.ok() || !received->fd.valid()) return 1;
  channel.Send("may: " + WhatADescriptorAllows(received->fd.get(), arguments.at(0) == "other"));
  return 0;
}

// Case S4 (this uid, and an other one that was handed the descriptor).
class ReadOnlyGrant : public Security, public ::testing::WithParamInterface<const char*> {};

TEST_P(ReadOnlyGrant, ItsDescriptorCannotBeWrittenTruncatedOrReopened) {
  StartBroker({"--memory", GetParam()});
  StatusOr<RawClient> writer = RawClient::WithSession(socket());
  StatusOr<RawClient> reader = RawClient::WithSession(socket());
  TB_ASSERT_OK(writer.status());
  TB_ASSERT_OK(reader.status());
  const StatusOr<wire::Grant> grant = writer->Create(64 * 1024);
  TB_ASSERT_OK(grant.status());
  TB_ASSERT_OK(reader->Attach(grant->storage(), false).status());
  const StatusOr<Fd> fd = reader->GetSegment(grant->segment(), false);
  TB_ASSERT_OK(fd.status());
  EXPECT_EQ(WhatADescriptorAllows(fd->get(), false), "");
  EXPECT_EQ(fcntl(fd->get(), F_GETFL) & O_ACCMODE, O_RDONLY);
  // The writer's own is writable: the attempts above can succeed at all.
  const StatusOr<Fd> writable = writer->GetSegment(grant->segment(), true);
  TB_ASSERT_OK(writable.status());
  EXPECT_NE(WhatADescriptorAllows(writable->get(), false).find("mmap mprotect"), std::string::npos);
  if (std::string_view(GetParam()) == "memfd") {
    EXPECT_NE(fcntl(writable->get(), F_GET_SEALS) & (F_SEAL_SHRINK | F_SEAL_GROW), 0);
    EXPECT_NE(ftruncate(writable->get(), 0), 0) << "a sealed memfd cannot be truncated by a writer";
  }

  if (geteuid() != 0) GTEST_SKIP() << "the part with another uid needs root";
  int ends[2] = {-1, -1};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  Channel ours{Fd(ends[0])};
  Fd theirs(ends[1]);
  Process nobody = Process::StartChild("TryADescriptor", {"other"}, theirs, {.uid = 65534});
  theirs.reset();
  const std::byte mark{'d'};
  TB_ASSERT_OK(SendWithFd(ours.fd(), {&mark, 1}, fd->get()).status());
  EXPECT_EQ(ours.Receive(), "may: ") << nobody.Stderr();
  EXPECT_EQ(nobody.Wait().code, 0);
}
INSTANTIATE_TEST_SUITE_P(Memory, ReadOnlyGrant, ::testing::Values("shm", "memfd"),
                         [](const auto& memory) { return std::string(memory.param); });

}  // namespace
}  // namespace tensorbroker::testing
