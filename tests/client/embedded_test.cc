// Client::Embedded: a broker of one's own.
#include <gmock/gmock.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>

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
