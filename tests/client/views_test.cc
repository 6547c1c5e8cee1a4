// Views and copies of a Tensor, over a real Storage.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include "tests/client/connect.h"

namespace tensorbroker::testing {
namespace {

using ::testing::HasSubstr;

class Views : public ::testing::Test {
 protected:
  std::unique_ptr<BrokerProcess> broker_ = StartBroker();
  Client client_ = ConnectTo(*broker_);
};

// Case H3.
TEST_F(Views, ThreeHeadersOneStorage) {
  const Tensor a = Must(client_.Arange(0, 6, 1));
  const Tensor matrix = Must(a.View({2, 3}));
  const Tensor row = Must(matrix.Narrow(0, 0, 1));
  const Tensor transposed = Must(matrix.T());
  EXPECT_EQ(transposed.strides(), (Dims{1, 3}));
  EXPECT_EQ(row.data_ptr(), matrix.data_ptr());
  EXPECT_EQ(transposed.data_ptr(), matrix.data_ptr());
  EXPECT_EQ(Storages(client_), 1u);
  EXPECT_EQ(Must(client_.inspector().Info()).storages, 1u);
  matrix.data<float>()[1] = 42;
  EXPECT_EQ(row.data<float>()[1], 42.0f);
  EXPECT_EQ(transposed.data<float>()[1 * transposed.strides()[0]], 42.0f);
}

TEST_F(Views, PopulateLeavesNoPageToFault) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer's own memory faults at each first read";
#endif
  constexpr int64_t kBytes = 32 << 20;
  Must(Must(client_.Full({kBytes}, 7, DType::kUInt8, {.map = true})).Publish("pages"));
  Must(client_.Flush());  // unmapped
  const Tensor tensor = Must(client_.Open("pages", {.map = false}));
  EXPECT_FALSE(tensor.storage().mapped());
  Must(tensor.storage().Populate());
  const auto faults = [] {
    rusage usage{};
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_minflt;
  };
  const long before = faults();
  int64_t sum = 0;
  for (int64_t at = 0; at < kBytes; at += 4096) sum += tensor.data<const uint8_t>()[at];
  EXPECT_LT(faults() - before, 64) << "of " << kBytes / 4096 << " pages";
  EXPECT_EQ(sum, 7 * kBytes / 4096);
  Must(Must(client_.Empty({0})).storage().Populate());  // no page, no error
}

// Case H4: the header.
TEST_F(Views, ANegativeStrideReadsBackwards) {
  const Tensor a = Must(client_.Arange(0, 4, 1));
  const Tensor reversed = Must(a.Flip({0}));
  EXPECT_EQ(reversed.strides(), Dims{-1});
  EXPECT_EQ(reversed.header().offset_bytes(), 12);
  EXPECT_EQ(Must(reversed.Clone()).data<float>()[0], 3.0f);
  Must(reversed.Publish("reversed"));
  EXPECT_EQ(Must(client_.Open("reversed")).strides(), Dims{-1});
}

// Case H5.
TEST_F(Views, AViewThatStridesCannotExpressNamesTheWayOut) {
  const Tensor transposed = Must(Must(client_.Empty({2, 3})).T());
  const Status status = transposed.View({6}).status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(Message(status)), HasSubstr("reshape"));
  bool copied = false;
  EXPECT_EQ(Must(transposed.Reshape({6}, &copied)).shape(), Dims{6});
  EXPECT_TRUE(copied);
  const Tensor matrix = Must(client_.Empty({2, 3}));
  EXPECT_EQ(Must(matrix.Reshape({3, -1}, &copied)).data_ptr(), matrix.data_ptr());
  EXPECT_FALSE(copied);
}

// Case H6.
TEST_F(Views, ASmallViewKeepsTheWholeStorageAndACloneDoesNot) {
  Tensor row;
  {
    const Tensor large = Must(client_.Zeros({1000, 1000}));
    row = Must(large.Narrow(0, 0, 1));
  }
  Must(client_.Flush());
  EXPECT_EQ(row.storage().nbytes(), 4'000'000);
  EXPECT_EQ(Must(client_.inspector().Stat(row.storage().id())).size_bytes, 4'000'000);
  row = Must(row.Clone());
  Must(client_.Flush());
  EXPECT_EQ(row.storage().nbytes(), 4000);
  EXPECT_EQ(Storages(client_), 1u);
}

// Case H11.
TEST_F(Views, DetachAliasesAndImpossibleViewsSayWhy) {
  const Tensor a = Must(client_.Zeros({2, 3}, DType::kFloat32, {.requires_grad = true}));
  const Tensor detached = a.Detach();
  EXPECT_FALSE(detached.header().requires_grad());
  detached.data<float>()[4] = 9;
  EXPECT_EQ(a.data<float>()[4], 9.0f);
  const Status status = a.View({4, 2}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(Message(status)), HasSubstr("6"));
}

TEST_F(Views, AsStridedMayNotReachOutside) {
  const Tensor a = Must(client_.Zeros({8}));
  EXPECT_EQ(Must(a.AsStrided({2, 4}, {4, 1}, 0)).shape(), (Dims{2, 4}));
  EXPECT_EQ(a.AsStrided({2, 4}, {4, 1}, 1).status().code(), StatusCode::kOutOfRange);
}

TEST_F(Views, CopyFromBroadcastsConvertsAndFindsOverlaps) {
  const Tensor target = Must(client_.Zeros({2, 3}, DType::kInt32));
  Must(target.CopyFrom(Must(client_.Arange(0, 3, 1))));
  EXPECT_EQ(target.data<int32_t>()[5], 2);
  Must(target.Publish("target"));
  // The same Storage, through another mapping of it.
  const Tensor readable = Must(client_.Open("target"));
  const Tensor flat = Must(target.View({6}));
  const Tensor backwards = Must(Must(readable.View({6})).Flip({0}));
  EXPECT_EQ(flat.CopyFrom(backwards).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(readable.CopyFrom(target).code(), StatusCode::kFailedPrecondition);
}

TEST_F(Views, AnUndefinedTensorFailsClearly) {
  const Tensor none;
  EXPECT_EQ(none.data_ptr(), nullptr);
  EXPECT_EQ(none.shape(), Dims{0});
  EXPECT_EQ(none.Publish("x").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(none.Export().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(none.Clone().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(none.Map().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(none.ToString(), "undefined");
}

TEST_F(Views, PrintsAsTorchDoes) {
  EXPECT_EQ(Must(client_.Arange(0, 3, 1)).ToString(), "tensor([0., 1., 2.])");
}

}  // namespace
}  // namespace tensorbroker::testing
