// tensorctl against a real broker: what it prints, as text and as JSON, and its exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/ipc/numa.h"
#include "tests/cli/schema.h"
#include "tests/cli/tensorctl_process.h"
#include "tests/support/broker_process.h"

namespace tensorbroker::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

class TensorctlTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto broker = testing::BrokerProcess::Start({"--capacity", "256MiB"});
    ASSERT_TRUE(broker.ok()) << broker.status();
    broker_ = *std::move(broker);
  }

  Words With(Words words) const {
    words.insert(words.begin(), {"--socket", broker_->socket()});
    return words;
  }
  Result Run(Words words) const { return Tensorctl(With(std::move(words))); }
  // The output of a command that must succeed, checked against its schema.
  nlohmann::json RunJson(Words words, const std::string& schema) const {
    words.emplace_back("--json");
    const Result result = Run(std::move(words));
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(CheckAgainstSchema(result.out, schema), "") << result.out;
    auto json = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    return result.code == 0 ? json : nlohmann::json::object();
  }
  Client Connect(const std::string& label = "test") const {
    auto client = Client::Connect({.socket = broker_->socket(), .label = label});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  std::unique_ptr<testing::BrokerProcess> broker_;
};

Tensor Published(Client& client, Dims shape, const std::string& name) {
  const StatusOr<Tensor> tensor = client.Zeros(std::move(shape));
  EXPECT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_TRUE(tensor->Publish(name).ok());
  return *tensor;
}

TEST_F(TensorctlTest, InfoShowsTheCapacityAndWhatBindsIt) {
  const Result text = Run({"info"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("256 MiB, bound by --capacity"));
  EXPECT_THAT(text.out, HasSubstr(broker_->socket()));
  auto json = RunJson({"info"}, "info");
  EXPECT_EQ(json["capacity_bytes"], 256 << 20);
  EXPECT_EQ(json["pid"], broker_->pid());
}

TEST_F(TensorctlTest, LsShowsNamesWithTheirHeadersAndCountsEachStorageOnce) {
  Client client = Connect();
  const Tensor whole = Published(client, {10, 100}, "train/whole");
  ASSERT_TRUE(whole.Select(0, 3)->Publish("train/row").ok());
  const Tensor held = *client.Zeros({2}, DType::kInt64);
  const Result text = Run({"ls", "--bytes"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, MatchesRegex("NAME +DTYPE +SHAPE +BYTES +DEVICE +HOLDERS +AGE +STATE\n"
                                     "train/row +float32 +\\(100,\\) +400 of 4000 +cpu +1 .*"
                                     "train/whole +float32 +\\(10, 100\\) +4000 +cpu +1 .*"
                                     "[0-9a-f]+-[0-9]+ +int64 +\\(2,\\) +16 +cpu +1 .*"
                                     "2 names, 2 Storages, 4016\n"));
  EXPECT_THAT(Run({"ls", "train/r"}).out, Not(HasSubstr("train/whole")));
  EXPECT_THAT(Run({"ls", "--state", "held"}).out, Not(HasSubstr("train/")));
  EXPECT_THAT(Run({"ls", "--holder", std::to_string(getpid())}).out, HasSubstr("train/row"));
  EXPECT_THAT(Run({"ls", "--holder", "1"}).out, Not(HasSubstr("train/row")));
  auto json = RunJson({"ls"}, "ls");
  EXPECT_EQ(json["storages"].size(), 2u);
  EXPECT_EQ(json["total_bytes"], 4016);
  EXPECT_EQ(RunJson({"ls", "none/"}, "ls")["storages"].size(), 0u);
}

TEST_F(TensorctlTest, StatShowsHeaderStorageAndEachHolder) {
  Client client = Connect("trainer");
  const Tensor whole = Published(client, {10, 100}, "w");
  ASSERT_TRUE(whole.T()->Publish("t").ok());
  const Result text = Run({"stat", "t"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("float32 (100, 10), strides (1, 100), offset 0 B, not contiguous"));
  EXPECT_THAT(text.out, HasSubstr("trainer"));
  EXPECT_THAT(text.out, HasSubstr(std::to_string(getpid())));
  auto json = RunJson({"stat", ToString(whole.storage().id())}, "stat");
  EXPECT_EQ(json["storage"]["names"].size(), 2u);
  EXPECT_EQ(json["storage"]["holders"][0]["label"], "trainer");
  EXPECT_EQ(json["storage"]["holders"].size(), 1u) << "looking is no hold";
}

TEST_F(TensorctlTest, StatTellsTheNodesAndLeavesNoTrace) {
  Client client = Connect();
  const Tensor tensor = Published(client, {1000}, "t");
  TensorctlProcess watch(With({"watch", "t", "--count", "1"}));
  EXPECT_THAT(watch.ReadErrorLine(), StartsWith("watching"));
  auto json = RunJson({"stat", "t"}, "stat");
  const std::vector<int32_t> nodes = NumaNodes(tensor.storage().bytes());
  EXPECT_EQ(json["numa_nodes"], nodes.empty() ? nlohmann::json(nullptr) : nlohmann::json(nodes));
  ASSERT_TRUE(client.Unpublish("t").ok());
  EXPECT_THAT(watch.ReadLine(), HasSubstr("unpublished")) << "looking is no event of the Storage";
}

TEST_F(TensorctlTest, WhoShowsProcessesAndLeavesItselfOut) {
  Client client = Connect("trainer");
  const Tensor tensor = Published(client, {1000}, "w");
  auto json = RunJson({"who"}, "who");
  ASSERT_EQ(json["processes"].size(), 1u);
  EXPECT_EQ(json["processes"][0]["pid"], getpid());
  EXPECT_EQ(json["processes"][0]["bytes"], 4000);
  EXPECT_EQ(json["processes"][0]["held"].size(), 1u);
  EXPECT_EQ(RunJson({"who", "w"}, "who")["processes"].size(), 1u);
  const Result text = Run({"who", "--storages"});
  EXPECT_THAT(text.out, HasSubstr("trainer"));
  EXPECT_THAT(text.out, HasSubstr(ToString(tensor.storage().id()) + "  3.9 KiB  w\n"));
}

TEST_F(TensorctlTest, WaitReturnsOnceTheNameIsThere) {
  TensorctlProcess wait(With({"wait", "late", "--json"}));
  Client client = Connect();
  // It waits once its session is there; publishing before would be seen too.
  EXPECT_TRUE(testing::Eventually(std::chrono::seconds(30),
                                  [&] { return client.inspector().Sessions(false)->size() == 2; }));
  const Tensor tensor = Published(client, {3}, "late");
  const Result result = wait.Wait();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(CheckAgainstSchema(result.out, "put"), "") << result.out;
}

TEST_F(TensorctlTest, WaitEndsWithItsTimeout) {
  const Result result = Run({"wait", "never", "--timeout", "50ms"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, StartsWith("tensorctl: wait: DEADLINE_EXCEEDED: "));
  EXPECT_THAT(result.err, HasSubstr("never"));
}

TEST_F(TensorctlTest, RenameMovesANameAndReplacesOnlyWhenTold) {
  Client client = Connect();
  const Tensor a = Published(client, {3}, "a");
  const Tensor b = Published(client, {4}, "b");
  EXPECT_THAT(Run({"rename", "a", "b"}).err, StartsWith("tensorctl: rename: ALREADY_EXISTS: "));
  auto json = RunJson({"rename", "a", "b", "--replace"}, "rename");
  EXPECT_EQ(json["to"], "b");
  EXPECT_EQ(client.Open("b")->shape(), Dims({3}));
  EXPECT_EQ(client.Open("a").status().code(), StatusCode::kNotFound);
}

TEST_F(TensorctlTest, RmUnbindsNamesAndDeletesStoragesById) {
  Client client = Connect();
  const Tensor tensor = Published(client, {3}, "a");
  ASSERT_TRUE(tensor.Publish("b").ok());
  ASSERT_TRUE(tensor.Publish("[c,d]").ok());
  auto names = RunJson({"rm", "a", "[c,d]"}, "rm");
  EXPECT_EQ(names["removed"].size(), 2u);
  EXPECT_TRUE(client.Open("b").ok());
  const std::string id = ToString(tensor.storage().id());
  auto deleted = RunJson({"rm", id}, "rm");
  EXPECT_EQ(deleted["removed"][0]["id"], id);
  EXPECT_EQ(deleted["removed"][0]["holders"], 1);
  EXPECT_EQ(client.Open("b").status().code(), StatusCode::kNotFound);
  const Result again = Run({"rm", "b"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, StartsWith("tensorctl: rm: NOT_FOUND: "));
}

TEST_F(TensorctlTest, RmTriesEachAndTellsWhatFailed) {
  Client client = Connect();
  const Tensor tensor = Published(client, {3}, "a");
  for (const char* name : {"b", "c", "d"}) ASSERT_TRUE(tensor.Publish(name).ok());
  const Result text = Run({"rm", "a", "none", "../x", "b"});
  EXPECT_EQ(text.code, 1);
  EXPECT_EQ(text.out, "removed a\nremoved b\n");
  EXPECT_THAT(text.err,
              MatchesRegex("tensorctl: rm: NOT_FOUND: .*none.*\ntensorctl: rm: INVALID_ARGUMENT: .*x.*\n"));
  const Result json = Run({"rm", "c", "none", "d", "--json"});
  EXPECT_EQ(json.code, 1);
  EXPECT_EQ(CheckAgainstSchema(json.out, "rm"), "") << json.out;
  const auto both = nlohmann::json::parse(json.out);
  EXPECT_EQ(both["removed"], nlohmann::json::parse(R"([{"name": "c"}, {"name": "d"}])"));
  ASSERT_EQ(both["failed"].size(), 1u);
  EXPECT_EQ(both["failed"][0]["subject"], "none");
  EXPECT_EQ(both["failed"][0]["error"]["code"], "NOT_FOUND");
  for (const char* name : {"a", "b", "c", "d"}) {
    EXPECT_EQ(client.Open(name).status().code(), StatusCode::kNotFound) << name;
  }
}

TEST_F(TensorctlTest, WatchShowsEventsAsTheyHappen) {
  TensorctlProcess watch(With({"watch", "seen/", "--json", "--count", "2"}));
  EXPECT_THAT(watch.ReadLine(), HasSubstr("\"ready\""));
  Client client = Connect();
  const Tensor tensor = Published(client, {3}, "seen/a");
  ASSERT_TRUE(tensor.Publish("other").ok());
  const std::string published = watch.ReadLine();
  EXPECT_EQ(CheckAgainstSchema(published, "watch"), "") << published;
  EXPECT_THAT(published, HasSubstr("\"name\":\"seen/a\""));
  ASSERT_TRUE(client.Unpublish("seen/a").ok());
  EXPECT_THAT(watch.ReadLine(), HasSubstr("\"unpublished\""));
  EXPECT_EQ(watch.Wait().code, 0);

  TensorctlProcess text(With({"watch", "seen/", "--count", "1"}));
  EXPECT_THAT(text.ReadErrorLine(), StartsWith("watching"));
  ASSERT_TRUE(tensor.Publish("seen/b").ok());
  EXPECT_THAT(text.ReadLine(), HasSubstr("seen/b version 1"));
}

// Case H6.
TEST_F(TensorctlTest, DoctorSaysThatASmallViewKeepsALargeStorage) {
  Client client = Connect();
  const Tensor row = *client.Zeros({1000, 1000})->Narrow(0, 0, 1);
  ASSERT_TRUE(row.Publish("row").ok());
  const auto finding_ids = [&] {
    Words ids;
    const Result result = Run({"doctor", "--json"});
    EXPECT_EQ(CheckAgainstSchema(result.out, "doctor"), "") << result.out;
    const auto json = nlohmann::json::parse(result.out);
    for (const auto& finding : json["findings"]) ids.push_back(finding["id"]);
    return ids;
  };
  EXPECT_THAT(finding_ids(), ::testing::Contains("small-view"));
  EXPECT_THAT(Run({"doctor"}).out, HasSubstr("row shows 3.9 KiB and keeps a Storage of 3.8 MiB alive"));
  const Tensor copy = *row.Clone();
  EXPECT_EQ(copy.storage().nbytes(), 4000);
  ASSERT_TRUE(copy.Publish("row", {.replace = true}).ok());
  EXPECT_THAT(finding_ids(), Not(::testing::Contains("small-view")));
}

TEST_F(TensorctlTest, PrintShowsValuesAsTorchDoes) {
  Client client = Connect();
  const Tensor tensor = *client.Arange(0, 6, 1, DType::kFloat32)->View(Dims{2, 3});
  ASSERT_TRUE(tensor.Publish("a").ok());
  EXPECT_EQ(Run({"print", "a"}).out, "tensor([[0., 1., 2.],\n        [3., 4., 5.]])\n");
  EXPECT_EQ(Run({"print", "a", "--slice", "1,::2"}).out, "tensor([3., 5.])\n");
  EXPECT_EQ(RunJson({"print", "a"}, "print")["header"]["shape"], nlohmann::json({2, 3}));
  EXPECT_EQ(Run({"print", "a", "--slice", "5"}).code, 1);
}

TEST_F(TensorctlTest, StopEndsTheBrokerAndWaitsForIt) {
  auto json = RunJson({"stop"}, "stop");
  EXPECT_EQ(json["pid"], broker_->pid());
  EXPECT_TRUE(json["ended"]);
  EXPECT_EQ(broker_->Stop(), 0) << "it has ended by itself";
}

// Case S1: what other processes chose reaches no terminal.
TEST_F(TensorctlTest, HostileLabelsAndCommandLinesAreEscaped) {
  if (access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "no bash here";
  Client client = Connect("root \u202e");
  const Tensor tensor = Published(client, {3}, "a");
  const std::string script =
      "exec -a $'\\e[2J\\nroot' " + TensorctlPath() + " --socket " + broker_->socket() + " watch";
  TensorctlProcess hostile({"-c", script}, {}, Stdout::kPipe, "/bin/bash");
  EXPECT_THAT(hostile.ReadErrorLine(), StartsWith("watching"));
  EXPECT_THAT(Run({"who"}).out, HasSubstr("root \\u202e"));
  for (const Words& words : {Words{"who"}, Words{"stat", "a"}, Words{"who", "--json"}, Words{"doctor"}}) {
    const Result result = Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out.find('\x1b'), std::string::npos) << result.out;
    EXPECT_EQ(result.out.find("\u202e"), std::string::npos) << result.out;
    EXPECT_EQ(result.out.find("\nroot"), std::string::npos) << result.out;
  }
}

TEST_F(TensorctlTest, BadNamesAreRefusedOnOneLine) {
  for (const char* name : {"../x", "/x",
                           "a\x01"
                           "b",
                           "\x1b[31m", "a//b"}) {
    for (const char* command : {"stat", "wait", "rm", "print"}) {
      const Result result = Run({command, "--timeout", "5s", name});
      EXPECT_EQ(result.code, 1) << command << " " << name;
      EXPECT_THAT(result.err, StartsWith(std::string("tensorctl: ") + command + ": "));
      EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
      EXPECT_EQ(result.err.find('\x1b'), std::string::npos) << result.err;
    }
  }
}

TEST_F(TensorctlTest, AFailureIsAnObjectWithJson) {
  const Result result = Run({"stat", "none", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(CheckAgainstSchema(result.out, "error"), "") << result.out;
  EXPECT_EQ(nlohmann::json::parse(result.out)["error"]["code"], "NOT_FOUND");
  EXPECT_THAT(result.err, StartsWith("tensorctl: stat: NOT_FOUND: "));
}

TEST_F(TensorctlTest, ATerminalGetsColourWithinItsWidth) {
  Client client = Connect();
  const std::string name = "a/name/of/a/tensor/that/is/longer/than/the/terminal/is/wide";
  const Tensor tensor = Published(client, {3}, name);
  const Result terminal = Tensorctl(With({"ls"}), {"TERM=xterm", "NO_COLOR="}, Stdout::kTerminal70);
  EXPECT_THAT(terminal.out, HasSubstr("\x1b[1mNAME\x1b[0m"));
  EXPECT_THAT(terminal.out, HasSubstr("…"));
  const Result plain = Tensorctl(With({"ls"}), {"TERM=xterm", "NO_COLOR=1"}, Stdout::kTerminal70);
  EXPECT_EQ(plain.out.find('\x1b'), std::string::npos) << plain.out;
  for (size_t begin = 0; begin < plain.out.size();) {
    const size_t end = std::min(plain.out.find("\r\n", begin), plain.out.size());
    EXPECT_LE(DisplayWidth(plain.out.substr(begin, end - begin)), 70) << plain.out;
    begin = end + 2;
  }
  const Result pipe = Run({"ls"});
  EXPECT_EQ(pipe.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(pipe.out, HasSubstr(name));
  EXPECT_THAT(Run({"ls", "--color", "always"}).out, HasSubstr("\x1b[1mNAME"));
}

TEST_F(TensorctlTest, AStdoutThatCannotBeWrittenIsAFailure) {
  const Result result = Tensorctl(With({"info"}), {}, Stdout::kFull);
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("stdout cannot be written: No space left on device"));
}

TEST_F(TensorctlTest, BashCompletesCommandsOptionsAndLiveNames) {
  if (access("/bin/bash", X_OK) != 0) GTEST_SKIP() << "no bash here";
  Client client = Connect();
  const Tensor tensor = Published(client, {3}, "train/a b");
  ASSERT_TRUE(tensor.Publish("train/$(touch pwned)").ok());
  ASSERT_TRUE(tensor.Publish("other").ok());
  const auto complete = [&](const std::string& words, int at) {
    const std::string script = "source <(" + TensorctlPath() + " __complete bash); PATH=" +
                               TensorctlPath().substr(0, TensorctlPath().rfind('/')) +
                               ":$PATH; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(at) +
                               "; _tensorctl; printf '%s\\n' \"${COMPREPLY[@]}\"";
    return TensorctlProcess({"-c", script}, {"TENSORBROKER_SOCKET=" + broker_->socket()}, Stdout::kPipe,
                            "/bin/bash")
        .Wait();
  };
  EXPECT_EQ(complete("tensorctl re", 1).out, "rename\n");
  EXPECT_EQ(complete("tensorctl ls --sort b", 3).out, "bytes\n");
  EXPECT_EQ(complete("tensorctl ls --rev", 2).out, "--reverse\n");
  EXPECT_EQ(complete("tensorctl --json stat o", 3).out, "other\n");
  EXPECT_EQ(complete("tensorctl stat train/", 2).out, "train/\\$\\(touch\\ pwned\\)\ntrain/a\\ b\n");
  EXPECT_NE(access("pwned", F_OK), 0);
  EXPECT_EQ(complete("tensorctl who --x", 2).err, "");
}

}  // namespace
}  // namespace tensorbroker::cli
