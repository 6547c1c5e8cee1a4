// Limits of a process, a machine and a Storage: where they are reached, an error names them.
#include <fmt/format.h>

#include "tests/multiprocess/harness/fixture.h"
#include "tests/multiprocess/harness/raw_client.h"

namespace tensorbroker::testing {
namespace {

class Limits : public MultiprocessTest {};

// Case L2.
TEST_F(Limits, AnAttachOverTheAddressSpaceFailsInTheAttacherOnly) {
  StartBroker();
  EventLog events(client());
  if (Info().capacity_bytes < 1024 * kMiB) GTEST_SKIP() << "the capacity is under 1 GiB";
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Reserve("t", 1024 * kMiB);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Do({"limit-address-space", std::to_string(256 * kMiB)}));
  TB_EXPECT_ERROR(b.Open("t", "x"), kResourceExhausted, "RLIMIT_AS");
  TB_EXPECT_ERROR(b.Attach("t", *id), kResourceExhausted, "RLIMIT_AS");
  TB_ASSERT_OK(b.Flush());
  EXPECT_EQ(Holders(*id), 1);
  TB_EXPECT_OK(a.Do({"map", "t"}));
  TB_EXPECT_OK(b.Create("small", 4096, 1).status());
  TB_EXPECT_OK(b.Check("small", 1));
}

// Case C1.
TEST_F(Limits, With256DescriptorsAClientHolds5000HeadersAnd1000Storages) {
  StartBroker();
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Do({"limit-fds", "256"}));
  TB_ASSERT_OK(a.CreateMany("few", 10, 64 * 1024, true));
  for (int i = 0; i < 10; ++i) TB_ASSERT_OK(a.Do({"views", fmt::format("few/{}", i), "500"}));
  TB_ASSERT_OK(a.CreateMany("many", 1000, 4096, true));
  TB_EXPECT_OK(a.Write("many/999", 3));
  TB_EXPECT_OK(a.Check("many/999", 3));
  EXPECT_EQ(Info().storages, 1010u);
  EXPECT_LT(DescriptorsOf(a.pid()).size(), 100u);
}

// Case C2.
TEST_F(Limits, ManyHeadersOnOneStorageAreOneMapping) {
  StartBroker({"--memory", "shm"});
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Create("t", 4 * kMiB, 1).status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("t", "x"));
  TB_ASSERT_OK(b.Do({"views", "t", std::to_string(200'000)}));
  std::string count;
  TB_ASSERT_OK(b.Do({"count-mappings", broker().shm_dir()}, &count));
  EXPECT_EQ(count, "1");
  // Opened again and again: still one mapping, one hold.
  for (int i = 0; i < 10; ++i) TB_ASSERT_OK(b.Open(fmt::format("again/{}", i), "x"));
  TB_ASSERT_OK(b.Do({"count-mappings", broker().shm_dir()}, &count));
  EXPECT_EQ(count, "1");
  EXPECT_EQ(Holders(inspector().Stat("x")->id), 2);
}

// Case C2.
TEST_F(Limits, RunningIntoMaxMapCountNamesThatLimit) {
  StartBroker();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 4096, 1);
  TB_ASSERT_OK(id.status());
  if (kSanitized) GTEST_SKIP() << "a sanitizer's own mappings need what this test uses up";
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Do({"use-up-mappings"}));
  TB_EXPECT_ERROR(b.Attach("t", *id), kResourceExhausted, "vm.max_map_count");
  EXPECT_TRUE(Eventually(kHang, [&] { return Holders(*id) == 1; }));
  b.Kill();  // it has no mapping left for a clean end
}

// Case C4.
TEST_F(Limits, AStorageHasTheBytesThatWereAskedForInEveryProcess) {
  StartBroker();
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 8, 1);
  TB_ASSERT_OK(id.status());
  TB_ASSERT_OK(a.Publish("t", "x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("opened", "x"));
  TB_ASSERT_OK(b.Attach("attached", *id));
  for (const char* variable : {"opened", "attached"}) {
    std::string bytes;
    TB_ASSERT_OK(b.Do({"nbytes", variable}, &bytes));
    EXPECT_EQ(bytes, "8");
    TB_EXPECT_OK(b.Check(variable, 1));
  }
  EXPECT_EQ(Find(*id)->size_bytes, 8);
  StatusOr<Storage> storage = client().Attach(*id);
  TB_ASSERT_OK(storage.status());
  EXPECT_EQ(storage->bytes().size(), 8u);
  const StatusOr<Header> nine = Header::Contiguous({9}, DType::kUInt8);
  TB_EXPECT_ERROR(Tensor::Over(*storage, *nine), kOutOfRange, "8");
}

// Case C4.
TEST_F(Limits, ImpossibleSizesAreRefusedByTheClientAndByTheBroker) {
  StartBroker();
  TB_EXPECT_ERROR(client().CreateStorage(int64_t{1} << 60), kResourceExhausted);
  TB_EXPECT_ERROR(client().CreateStorage(INT64_MAX), kResourceExhausted);
  TB_EXPECT_ERROR(client().CreateStorage(-1), kInvalidArgument, "-1");
  TB_EXPECT_ERROR(client().Empty({-1, 4}), kInvalidArgument);
  StatusOr<RawClient> raw = RawClient::WithSession(socket());
  TB_ASSERT_OK(raw.status());
  TB_EXPECT_ERROR(raw->Create(int64_t{1} << 60), kResourceExhausted);
  TB_EXPECT_ERROR(raw->Create(INT64_MAX), kResourceExhausted);
  TB_EXPECT_ERROR(raw->Create(-1), kInvalidArgument, "-1");
  TB_EXPECT_ERROR(raw->Create(INT64_MIN), kInvalidArgument);
  EXPECT_EQ(Info().storages, 0u);
  EXPECT_EQ(UsedBytes(), 0);
}

// Case C5.
TEST_F(Limits, TensorsWithoutElementsTravelWithTheirShapeAndWithoutAMapping) {
  StartBroker({"--memory", "shm"});
  const std::vector<std::pair<Dims, std::string>> shapes = {
      {{0, 100}, "(0, 100)"}, {{1, 0}, "(1, 0)"}, {{0}, "(0,)"}};
  Agent& b = StartAgent("B");
  for (const auto& [shape, text] : shapes) {
    const StatusOr<Tensor> tensor = client().Empty(shape, DType::kFloat32);
    TB_ASSERT_OK(tensor.status());
    EXPECT_EQ(tensor->shape(), shape);
    TB_ASSERT_OK(tensor->Publish("empty"));
    TB_ASSERT_OK(b.Open("t", "empty"));
    const StatusOr<std::string> header = b.HeaderOf("t");
    TB_ASSERT_OK(header.status());
    EXPECT_EQ(header->rfind("float32 " + text, 0), 0u) << *header;
    std::string count;
    TB_ASSERT_OK(b.Do({"count-mappings", broker().shm_dir()}, &count));
    EXPECT_EQ(count, "0");
  }
  EXPECT_EQ(UsedBytes(), 0);
  // () holds one element.
  const StatusOr<Tensor> scalar = client().Full({}, 42, DType::kInt64);
  TB_ASSERT_OK(scalar.status());
  EXPECT_EQ(scalar->numel(), 1);
  TB_ASSERT_OK(scalar->Publish("scalar"));
  TB_ASSERT_OK(b.Open("t", "scalar"));
  const StatusOr<std::string> values = b.Values("t");
  TB_ASSERT_OK(values.status());
  EXPECT_EQ(*values, "42");
}

}  // namespace
}  // namespace tensorbroker::testing
