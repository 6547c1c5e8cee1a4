// What a process may run into: descriptors, mappings, address space.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <fstream>

#include "tests/client/connect.h"
#include "tests/support/scale.h"

namespace tensorbroker::testing {
namespace {

using ::testing::HasSubstr;

TB_CHILD(HolderWithFewDescriptors) {
  const rlimit limit{256, 256};
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const Client client = Must(Client::Connect({.socket = arguments[0]}));
  std::vector<Tensor> headers;
  for (int s = 0; s < 10; ++s) {
    const Tensor tensor = Must(client.Full({500}, s));
    for (int i = 0; i < 500; ++i) headers.push_back(Must(tensor.Narrow(0, i, 1)));
  }
  EXPECT_EQ(headers.size(), 5000u);
  EXPECT_EQ(headers[4999].data<float>()[0], 9.0f);
  EXPECT_EQ(Storages(client), 10u);
  EXPECT_EQ(CountFds("/dev/shm/"), 0);
  headers.clear();
  for (int s = 0; s < 1000; ++s) headers.push_back(Must(client.Full({16}, s)));
  EXPECT_EQ(headers[999].data<float>()[15], 999.0f);
  EXPECT_EQ(CountFds("/dev/shm/"), 0);
  return 0;
}

// Case C1.
TEST(ClientLimits, FewDescriptorsHoldManyHeadersAndManyStorages) {
  const auto broker = StartBroker();
  EXPECT_EQ(ChildProcess::Spawn("HolderWithFewDescriptors", {broker->socket()}).Wait(120s), 0);
}

TB_CHILD(HolderWithoutDescriptors) {
  const Client client = Must(Client::Connect({.socket = arguments[0]}));
  const Tensor first = Must(client.Ones({4}));
  std::vector<Fd> taken;
  while (true) {
    StatusOr<Fd> fd = Dup(0);
    if (!fd.ok()) break;
    taken.push_back(*std::move(fd));
  }
  const Status full = client.Ones({4}).status();
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted) << full;
  taken.clear();
  EXPECT_TRUE(client.Ones({4}).ok());  // the session lives on
  EXPECT_EQ(first.data<float>()[3], 1.0f);
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 1u);
  return 0;
}

TEST(ClientLimits, NoDescriptorLeftIsAnErrorAndNotTheSessionsEnd) {
  const auto broker = StartBroker();
  EXPECT_EQ(ChildProcess::Spawn("HolderWithoutDescriptors", {broker->socket()}).Wait(60s), 0);
}

// gRPC ends the process where it gets no descriptor for what wakes its polls.
TB_CHILD(ConnectsWithAFewDescriptorsLeft) {
  std::vector<Fd> taken;
  for (StatusOr<Fd> fd = Dup(0); fd.ok(); fd = Dup(0)) taken.push_back(*std::move(fd));
  for (int left = 0; left < std::stoi(arguments[1]); ++left) taken.pop_back();
  const StatusOr<Client> client = Client::Connect({.socket = arguments[0]});
  if (!client.ok()) {
    EXPECT_EQ(client.status().code(), StatusCode::kResourceExhausted) << client.status();
    EXPECT_THAT(client.status().ToString(), HasSubstr("ulimit -n")) << client.status();
  }
  taken.clear();
  const Client now = Must(Client::Connect({.socket = arguments[0]}));
  EXPECT_TRUE(now.Ones({4}).ok());
  return ::testing::Test::HasFailure() ? 1 : client.ok() ? 2 : 0;
}

// Case C1.
TEST(ClientLimits, AConnectWithoutDescriptorsIsAnErrorThatNamesTheLimit) {
  const auto broker = StartBroker();
  int refused = 0;
  for (int left = 0; left < 16; ++left) {
    ChildProcess child =
        ChildProcess::Spawn("ConnectsWithAFewDescriptorsLeft", {broker->socket(), std::to_string(left)});
    const int code = child.Wait(60s);
    EXPECT_THAT(code, ::testing::AnyOf(0, 2)) << left << " descriptors left";
    refused += code == 0;
  }
  EXPECT_GT(refused, 2);
  EXPECT_LT(refused, 16);
}

// Case C2.
TEST(ClientLimits, TwoHundredThousandHeadersShareOneMapping) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Zeros({1000}));
  Must(tensor.Publish("one"));
  std::vector<Tensor> headers;
  headers.reserve(200'000);
  for (int i = 0; i < 200'000; ++i) headers.push_back(Must(tensor.Select(0, i % 1000)));
  for (int i = 0; i < 100; ++i) headers.push_back(Must(client.Open("one", {.writable = true})));
  EXPECT_EQ(CountMappings(broker->shm_dir()), 1);
  EXPECT_EQ(tensor.storage().use_count(), 200'101);
}

TB_CHILD(AttacherWithLittleAddressSpace) {
  const Client client = Must(Client::Connect({.socket = arguments[0]}));
  int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto room = static_cast<rlim_t>(pages * 4096 + (256 << 20));
  const rlimit limit{room, room};
  EXPECT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  const Status status = client.Open("large").status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("RLIMIT_AS"));
  Must(client.Flush());
  const auto record = Must(client.inspector().Stat("large"));
  EXPECT_EQ(record.holder_count, 1u);
  return 0;
}

// Case L2.
TEST(ClientLimits, NoAddressSpaceIsNamedAndTheHoldGivenBack) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer reserves terabytes of address space";
  const auto broker = StartBroker({"--memory", "memfd"});
  const Client client = ConnectTo(*broker);
  StatusOr<Tensor> large = client.Empty({1 << 28});
  if (!large.ok()) GTEST_SKIP() << "this machine has no GiB to give: " << large.status();
  large->data<float>()[5] = 5;
  Must(large->Publish("large"));
  EXPECT_EQ(ChildProcess::Spawn("AttacherWithLittleAddressSpace", {broker->socket()}).Wait(60s), 0);
  EXPECT_EQ(large->data<float>()[5], 5.0f);
}

}  // namespace
}  // namespace tensorbroker::testing
