// Client::Embedded: a broker of one's own.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

#include "tests/client/connect.h"

namespace tensorbroker::testing {
namespace {

using ::testing::HasSubstr;

TB_CHILD(EmbedsABroker) {
  const Client client = Must(Client::Embedded({.daemon = DaemonPath(), .label = "embedder"}));
  const Tensor tensor = Must(client.Full({16}, 2));
  Must(tensor.Publish("embedded"));
  EXPECT_STREQ(getenv("TENSORBROKER_SOCKET"), client.socket().c_str());
  EXPECT_EQ(Must(client.inspector().Info()).memory, "memfd");
  ChildProcess user = ChildProcess::Spawn("UsesTheEmbeddedBroker");
  EXPECT_EQ(user.Wait(), 0);
  channel.Send(client.socket());
  channel.Send(std::to_string(Must(client.inspector().Info()).pid));
  channel.Receive();
  return 0;
}

TB_CHILD(UsesTheEmbeddedBroker) {
  const Client client = Must(Client::Connect());
  return Must(client.Open("embedded")).data<const float>()[15] == 2.0f ? 0 : 1;
}

bool Runs(const std::string& pid) { return kill(std::stoi(pid), 0) == 0; }

TEST(Embedded, ServesThisProcessAndItsChildrenAndLeavesNothing) {
  ChildProcess embedder = ChildProcess::Spawn("EmbedsABroker");
  const std::string socket = embedder.Receive().value_or("");
  const std::string pid = embedder.Receive().value_or("0");
  ASSERT_TRUE(Runs(pid));
  embedder.Send("exit");
  EXPECT_EQ(embedder.Wait(), 0);
  EXPECT_TRUE(Eventually(5s, [&] { return !Runs(pid); }));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(socket).parent_path()));
}

TEST(Embedded, EndsWithAParentThatIsKilled) {
  ChildProcess embedder = ChildProcess::Spawn("EmbedsABroker");
  const std::string socket = embedder.Receive().value_or("");
  const std::string pid = embedder.Receive().value_or("0");
  ASSERT_TRUE(Runs(pid));
  embedder.Kill();
  EXPECT_TRUE(Eventually(5s, [&] { return !Runs(pid); }));
  EXPECT_TRUE(Eventually(5s, [&] { return !std::filesystem::exists(socket); }));
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(socket).parent_path()));
}

// Where the broker's log stands, and the memory it takes at most.
int64_t LogOffset(int32_t pid) {
  std::ifstream info("/proc/" + std::to_string(pid) + "/fdinfo/2");
  std::string word;
  int64_t pos = -1;
  info >> word >> pos;
  return pos;
}

TB_CHILD(EmbedsAQuietBroker) {
  const Client client = Must(Client::Embedded({.daemon = DaemonPath()}));
  return LogOffset(Must(client.inspector().Info()).pid) == 0 ? 0 : 1;
}

TB_CHILD(EmbedsATalkativeBroker) {
  std::optional<Client> client =
      Must(Client::Embedded({.daemon = DaemonPath(), .arguments = {"--log-level=debug"}}));
  const std::string socket(client->socket());
  const int32_t pid = Must(client->inspector().Info()).pid;
  EXPECT_GT(LogOffset(pid), 0);
  for (int i = 0; i < 300; ++i) {  // a session each, and two lines
    client.reset();
    client = Must(Client::Connect({.socket = socket, .label = std::string(64, 'x')}));
  }
  EXPECT_GT(LogOffset(pid), 63 << 10) << "it is full";
  EXPECT_EQ(std::filesystem::file_size("/proc/" + std::to_string(pid) + "/fd/2"), 64u << 10);
  Must(client->Empty({1}));
  return 0;
}

TEST(Embedded, ItsLogIsQuietAndTakesNoMoreMemoryThanItsSize) {
  EXPECT_EQ(ChildProcess::Spawn("EmbedsAQuietBroker").Wait(), 0);
  EXPECT_EQ(ChildProcess::Spawn("EmbedsATalkativeBroker").Wait(), 0);
}

TB_CHILD(EmbedsABrokerInShm) {
  const Client client = Must(
      Client::Embedded({.memory = "shm", .daemon = DaemonPath(), .arguments = {"--shm-dir", arguments[0]}}));
  const Tensor tensor = Must(client.Full({16}, 2));
  channel.Send(std::to_string(Must(client.inspector().Info()).pid));
  channel.Receive();
  return 0;
}

// No broker of that instance ever starts again.
TEST(Embedded, WhatAKilledOneLeftGoesAtTheNextStart) {
  std::string directory = "/dev/shm/tb-test-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const auto instances = [&directory] {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory)) {
      EXPECT_THAT(entry.path().filename().string(), HasSubstr("-embedded-"));
      ++count;
    }
    return count;
  };
  for (int i = 0; i < 2; ++i) {
    ChildProcess embedder = ChildProcess::Spawn("EmbedsABrokerInShm", {directory});
    const std::string pid = embedder.Receive().value_or("0");
    ASSERT_TRUE(Runs(pid));
    EXPECT_EQ(instances(), 1);
    if (i == 0) kill(std::stoi(pid), SIGKILL);
    embedder.Send("exit");
    EXPECT_EQ(embedder.Wait(), 0);
    EXPECT_EQ(instances(), i == 0 ? 1 : 0);
  }
  std::filesystem::remove_all(directory);
}

TEST(Embedded, ADaemonThatIsNotThereOrDiesSaysSo) {
  const Status missing = Client::Embedded({.daemon = "/nonexistent/tensorbrokerd"}).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound) << missing;
  EXPECT_THAT(std::string(Message(missing)), HasSubstr("/nonexistent/tensorbrokerd"));
  const Status dead = Client::Embedded({.memory = "granite", .daemon = DaemonPath()}).status();
  EXPECT_EQ(dead.code(), StatusCode::kUnavailable) << dead;
  EXPECT_THAT(std::string(Message(dead)), HasSubstr("granite"));
}

}  // namespace
}  // namespace tensorbroker::testing
