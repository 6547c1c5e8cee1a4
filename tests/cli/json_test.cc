#include "tensorbroker/cli/json.h"

#include <gtest/gtest.h>

#include "tests/cli/records.h"
#include "tests/cli/schema.h"

namespace tensorbroker::cli {
namespace {

StorageRecord Full() {
  StorageRecord storage =
      StorageOf(3, 4000, {BindingOf("train/batch/0", {10, 100})}, {HolderOf(41), HolderOf(42)});
  storage.header = FloatHeader({1000});
  storage.names[0].expires_unix_ns = kNow + 1;
  storage.in_flight_from_pids = {41, 43};
  storage.numa_nodes = {0, 1};
  return storage;
}

TEST(Json, EachOutputIsAsItsSchemaSays) {
  BrokerInfo info = InfoOf(1 << 30, 1 << 20);
  info.limits = {{"sessions", 4096, 3, ""}, {"vm.max_map_count", 65530, -1, "raise it"}};
  info.features = {{"SO_PEERPIDFD", true, ""}, {"hugetlbfs", false, "not mounted"}};
  info.gpus = {{"GPU-1", "H200", int64_t{141} << 30}};
  info.warnings = {"RemoveIPC"};
  EXPECT_EQ(CheckAgainstSchema(InfoJson(info, "/run/x.sock"), "info"), "");
  EXPECT_EQ(CheckAgainstSchema(InfoJson(InfoOf(0, 0), ""), "info"), "");

  EXPECT_EQ(CheckAgainstSchema(ListJson({Full(), StorageOf(4, 0)}, 4000), "ls"), "");
  EXPECT_EQ(CheckAgainstSchema(ListJson({}, 0), "ls"), "");
  EXPECT_EQ(CheckAgainstSchema(StatJson(Full()), "stat"), "");
  EXPECT_EQ(CheckAgainstSchema(StatJson(StorageRecord{.id = {1, 2}}), "stat"), "");

  SessionRecord session;
  session.id = {7, 1};
  session.held = {{7, 2}, {7, 3}};
  EXPECT_EQ(CheckAgainstSchema(WhoJson({session}), "who"), "");

  const Header header = FloatHeader({2, 3});
  EXPECT_EQ(CheckAgainstSchema(TensorJson("a", {1, 2}, header), "put"), "");
  EXPECT_EQ(CheckAgainstSchema(GetJson("a", "a.npy", 24, header), "get"), "");
  EXPECT_EQ(CheckAgainstSchema(PrintJson("a", header, "tensor([])"), "print"), "");
  EXPECT_EQ(CheckAgainstSchema(RenameJson("a", "b"), "rename"), "");
  EXPECT_EQ(CheckAgainstSchema(RemoveJson({{"a"}, {"0000000000000007-1", true, 2}}, {}), "rm"), "");
  EXPECT_EQ(CheckAgainstSchema(RemoveJson({}, {{"a", NotFoundError("no such name")}}), "rm"), "");
  EXPECT_EQ(CheckAgainstSchema(DoctorJson({{"swap", Severity::kAdvice, "e", "r"}}, {"swap"}), "doctor"), "");
  EXPECT_EQ(CheckAgainstSchema(StopJson(41, true), "stop"), "");
  EXPECT_EQ(CheckAgainstSchema(ErrorJson("NOT_FOUND", "no such name"), "error"), "");
  EXPECT_EQ(CheckAgainstSchema(WatchReadyJson(""), "watch"), "");
}

TEST(Json, EachEventIsOneLineAsItsSchemaSays) {
  for (int kind = 0; kind <= static_cast<int>(EventKind::kLagged); ++kind) {
    const Event event{.kind = static_cast<EventKind>(kind),
                      .unix_ns = kNow,
                      .storage = {7, 1},
                      .size_bytes = 64,
                      .name = "a\nb",
                      .new_name = "c",
                      .version = 2,
                      .session = {7, 2},
                      .pid = 41,
                      .label = "loader",
                      .lost = 9};
    const std::string json = EventJson(event);
    EXPECT_EQ(CheckAgainstSchema(json, "watch"), "");
    EXPECT_EQ(json.find('\n'), json.size() - 1) << json;
    EXPECT_EQ(CheckAgainstSchema(EventJson({.kind = event.kind}), "watch"), "");
  }
}

TEST(Json, TheCheckerSeesAWrongOutput) {
  EXPECT_NE(CheckAgainstSchema("{}", "rename"), "");
  EXPECT_NE(CheckAgainstSchema(R"({"from": "a", "to": 1})", "rename"), "");
  EXPECT_NE(CheckAgainstSchema(R"({"from": "a", "to": "b", "more": 1})", "rename"), "");
  EXPECT_NE(CheckAgainstSchema("[]", "rename"), "");
  EXPECT_NE(CheckAgainstSchema("{", "rename"), "");
  EXPECT_NE(CheckAgainstSchema(StatJson(StorageRecord{}), "stat"), "") << "a Storage without an id";
}

TEST(Json, HostileBytesStayOneAsciiDocument) {
  StorageRecord storage = Full();
  storage.holders[0].label = "\x1b[2J\xff\"\\\n\u202e\x7f";
  const std::string json = ListJson({storage}, 0);
  EXPECT_EQ(CheckAgainstSchema(json, "ls"), "");
  for (const char c : json) EXPECT_TRUE(c == '\n' || (c >= 0x20 && c < 0x7f)) << static_cast<int>(c);
  EXPECT_NE(json.find(R"(\u001b[2J\ufffd\"\\\n\u202e\u007f)"), std::string::npos) << json;
}

TEST(Json, AnErrorHasItsCodeAndMessage) {
  EXPECT_EQ(ErrorJson("NOT_FOUND", "no such name"),
            "{\n  \"error\": {\n    \"code\": \"NOT_FOUND\",\n    \"message\": \"no such name\"\n  }\n}\n");
}

}  // namespace
}  // namespace tensorbroker::cli
