// Commands that start or miss a broker: serve, run, and all of them where there is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/schema.h"
#include "tests/cli/tensorctl_process.h"
#include "tests/support/broker_process.h"

namespace tensorbroker::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Words = std::vector<std::string>;

// A directory for a socket, with the daemon of this build in the environment.
class TensorctlBrokerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "tb-cli-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
    socket_ = pattern + "/broker.sock";
    environment_ = {"TENSORBROKER_DAEMON=" + testing::DaemonPath(), "TENSORBROKER_SOCKET=" + socket_};
  }
  ~TensorctlBrokerTest() override {
    std::error_code error;
    fs::remove_all(directory_, error);
  }
  Result Run(Words words) const { return Tensorctl(std::move(words), environment_); }
  // A command under `tensorctl run` that prints its broker's info as JSON.
  static Words InfoUnderRun() {
    return {"run", "--capacity", "64MiB", "--", TensorctlPath(), "info", "--json"};
  }

  fs::path directory_;
  std::string socket_;
  Words environment_;
};

bool IsGone(pid_t pid) { return kill(pid, 0) != 0; }

TEST_F(TensorctlBrokerTest, WithoutABrokerTheErrorNamesTheSocketAndIsOneLine) {
  for (const char* command : {"info", "ls", "who", "stop", "watch"}) {
    const Result result = Run({command});
    EXPECT_EQ(result.code, 1) << command;
    EXPECT_THAT(result.err, StartsWith(std::string("tensorctl: ") + command + ": NOT_FOUND: "));
    EXPECT_THAT(result.err, HasSubstr(socket_));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
    EXPECT_EQ(result.out, "");
  }
  const Result json = Run({"ls", "--json"});
  EXPECT_EQ(CheckAgainstSchema(json.out, "error"), "") << json.out;
}

TEST_F(TensorctlBrokerTest, WithoutABrokerDoctorHasAnErrorAndStillLooksAtTheMachine) {
  const Result result = Run({"doctor", "--json"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(CheckAgainstSchema(result.out, "doctor"), "") << result.out;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["findings"][0]["id"], "no-broker");
  EXPECT_GE(json["checked"].size(), 5u);
}

TEST_F(TensorctlBrokerTest, DoctorTellsAStoppedBrokerFromNone) {
  auto broker = testing::BrokerProcess::Start({"--memory", "memfd"});
  ASSERT_TRUE(broker.ok()) << broker.status();
  (*broker)->Pause();
  const Result result = Run({"--socket", (*broker)->socket(), "--timeout", "500ms", "doctor", "--json"});
  (*broker)->Resume();
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(CheckAgainstSchema(result.out, "doctor"), "") << result.out;
  const auto finding = nlohmann::json::parse(result.out)["findings"][0];
  EXPECT_EQ(finding["id"], "broker-silent");
  EXPECT_THAT(finding["evidence"].get<std::string>(), HasSubstr("pid " + std::to_string((*broker)->pid())));
}

TEST_F(TensorctlBrokerTest, WrongUsageIsExitCode2OnOneLine) {
  for (const Words& words :
       {Words{}, Words{"frobnicate"}, Words{"ls", "--sort", "x"}, Words{"run", "true"}, Words{"put", "a"}}) {
    const Result result = Run(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(": USAGE: "));
    EXPECT_THAT(result.err, HasSubstr("--help)"));
    EXPECT_EQ(result.err.find('\n'), result.err.size() - 1) << result.err;
  }
  const Result json = Run({"ls", "--json", "--sort", "x"});
  EXPECT_EQ(json.code, 2);
  EXPECT_EQ(CheckAgainstSchema(json.out, "error"), "") << json.out;
}

TEST_F(TensorctlBrokerTest, HelpNeedsNoBroker) {
  EXPECT_EQ(Run({"--help"}).code, 0);
  EXPECT_THAT(Run({"put", "--help"}).out, StartsWith("Usage: tensorctl put NAME FILE [options]\n"));
  EXPECT_THAT(Run({"serve", "--help"}).out, HasSubstr("tensorbrokerd"));
  EXPECT_THAT(Run({"--version"}).out, StartsWith("tensorctl "));
}

TEST_F(TensorctlBrokerTest, ServeIsTheDaemonInTheForeground) {
  TensorctlProcess serve({"--socket", socket_, "serve", "--memory", "memfd", "--capacity", "64MiB",
                          "--instance", "cli-serve-" + std::to_string(getpid())},
                         environment_);
  EXPECT_TRUE(testing::Eventually(std::chrono::seconds(30), [&] { return Run({"info"}).code == 0; }));
  const Result info = Run({"info", "--json"});
  EXPECT_EQ(nlohmann::json::parse(info.out)["pid"], serve.pid()) << "no process in between";
  EXPECT_EQ(Run({"stop"}).code, 0);
  EXPECT_EQ(serve.Wait().code, 0);
}

// The broker says pid 1, which is another process here, and does not end.
TEST_F(TensorctlBrokerTest, StopWaitsForABrokerInAnotherPidNamespace) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, for a pid namespace";
  TensorctlProcess serve({"--pid", "--fork", "--kill-child", testing::DaemonPath(), "--socket", socket_,
                          "--memory", "memfd", "--capacity", "64MiB"},
                         environment_, Stdout::kPipe, "/usr/bin/unshare");
  ASSERT_TRUE(testing::Eventually(std::chrono::seconds(30), [&] { return Run({"info"}).code == 0; }));
  EXPECT_EQ(nlohmann::json::parse(Run({"info", "--json"}).out)["pid"], 1);
  const auto before = std::chrono::steady_clock::now();
  const Result stop = Run({"stop", "--json", "--timeout", "50s"});
  EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(25));
  ASSERT_EQ(stop.code, 0) << stop.err;
  const auto json = nlohmann::json::parse(stop.out);
  EXPECT_EQ(json["ended"], true) << stop.out;
  EXPECT_NE(json["pid"], 1);
  EXPECT_EQ(serve.Wait().code, 0);
}

TEST_F(TensorctlBrokerTest, ServeWithoutADaemonSaysWhereItLooked) {
  environment_[0] = "TENSORBROKER_DAEMON=" + directory_.string() + "/none";
  const Result result = Run({"serve"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, StartsWith("tensorctl: serve: NOT_FOUND: "));
  EXPECT_THAT(result.err, HasSubstr("/none"));
}

TEST_F(TensorctlBrokerTest, RunGivesACommandABrokerThatEndsWithIt) {
  const Result result = Run(InfoUnderRun());
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(CheckAgainstSchema(result.out, "info"), "") << result.out;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_NE(json["socket"], socket_) << "a private one";
  EXPECT_EQ(json["capacity_bytes"], 64 << 20);
  EXPECT_TRUE(IsGone(json["pid"].get<pid_t>()));
  EXPECT_FALSE(fs::exists(json["socket"].get<std::string>()));
}

TEST_F(TensorctlBrokerTest, RunGivesTheCommandsExitCode) {
  EXPECT_EQ(Run({"run", "--", "sh", "-c", "exit 7"}).code, 7);
  EXPECT_EQ(Run({"run", "--", "sh", "-c", "kill -KILL $$"}).code, 128 + SIGKILL);
  const Result missing = Run({"run", "--", "no-such-command-here"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_THAT(missing.err, StartsWith("tensorctl: run: NOT_FOUND: no-such-command-here"));
  EXPECT_EQ(Run({"run", "--", "/"}).code, 126);
}

TEST_F(TensorctlBrokerTest, WhatServeAndRunCannotStartIsAnErrorInJsonToo) {
  const Result missing = Run({"--json", "run", "--", "no-such-command-here"});
  EXPECT_EQ(missing.code, 127);
  EXPECT_EQ(CheckAgainstSchema(missing.out, "error"), "") << missing.out;
  EXPECT_THAT(missing.err, StartsWith("tensorctl: run: NOT_FOUND: no-such-command-here"));
  const Result bogus = Run({"--json", "serve", "--bogus"});
  EXPECT_EQ(bogus.code, 2);
  EXPECT_EQ(CheckAgainstSchema(bogus.out, "error"), "") << bogus.out;
  EXPECT_EQ(nlohmann::json::parse(bogus.out)["error"]["code"], "USAGE");
  EXPECT_THAT(bogus.err, HasSubstr("--bogus"));
  const Result refused = Run({"--json", "serve", "--instance", "../x"});
  EXPECT_EQ(refused.code, 1);
  EXPECT_EQ(CheckAgainstSchema(refused.out, "error"), "") << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("instance \"../x\": "));
  EXPECT_THAT(Run({"serve", "--memory", "bogus"}).err, HasSubstr("memory \"bogus\" is unknown"));
}

TEST_F(TensorctlBrokerTest, RunHandsSignalsOn) {
  TensorctlProcess run({"run", "--", "sh", "-c", "echo ready; exec tail -f /dev/null"}, environment_);
  ASSERT_EQ(run.ReadLine(), "ready");
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait().code, 128 + SIGTERM);
}

}  // namespace
}  // namespace tensorbroker::cli
