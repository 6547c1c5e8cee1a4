// Headers as they travel: what one process writes through a view, another reads through the same view.
#include <fmt/format.h>

#include <complex>

#include "tests/multiprocess/harness/fixture.h"
#include "tests/multiprocess/harness/raw_client.h"

namespace tensorbroker::testing {
namespace {

struct WireHeader {
  wire::DType dtype;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t offset_bytes;
};

// A Storage of 64 bytes that holds 0, 1, ..., 63; an agent that reads what is published; and a peer that
// publishes headers that the library would not make.
class Headers : public MultiprocessTest {
 protected:
  void Start() {
    StartBroker();
    StatusOr<Storage> storage = client().CreateStorage(64);
    TB_ASSERT_OK(storage.status());
    storage_ = *storage;
    for (size_t i = 0; i < 64; ++i) storage_.mutable_bytes()[i] = static_cast<std::byte>(i);
    reader_ = &StartAgent("reader");
    StatusOr<RawClient> raw = RawClient::WithSession(socket());
    TB_ASSERT_OK(raw.status());
    raw_ = std::make_unique<RawClient>(*std::move(raw));
    TB_ASSERT_OK(raw_->Attach(ToWire(storage_.id()), true).status());
  }
  void TearDown() override {
    raw_.reset();
    storage_ = Storage();
    MultiprocessTest::TearDown();
  }

  StatusOr<Tensor> Over(DType dtype, Dims shape, Dims strides, int64_t offset_bytes) {
    TB_ASSIGN_OR_RETURN(Header header, Header::Make({.shape = std::move(shape),
                                                     .strides = std::move(strides),
                                                     .offset_bytes = offset_bytes,
                                                     .dtype = dtype}));
    return Tensor::Over(storage_, std::move(header));
  }
  // What the library, and then the broker, say of one header. They must agree.
  Status Judge(const WireHeader& header, DType dtype) {
    const Status library = Over(dtype, {header.shape.begin(), header.shape.end()},
                                {header.strides.begin(), header.strides.end()}, header.offset_bytes)
                               .status();
    wire::PublishRequest request;
    request.set_session(raw_->token());
    request.set_name("judged");
    request.set_replace(true);
    *request.mutable_storage() = ToWire(storage_.id());
    wire::Header& message = *request.mutable_header();
    message.set_dtype(header.dtype);
    for (const int64_t size : header.shape) message.add_shape(size);
    for (const int64_t stride : header.strides) message.add_strides(stride);
    message.set_offset_bytes(header.offset_bytes);
    wire::PublishReply reply;
    const Status broker = raw_->Call(&wire::Broker::Stub::Publish, request, &reply);
    EXPECT_EQ(library.code(), broker.code()) << "library: " << library << "\nbroker: " << broker;
    return broker;
  }
  // Publishes, opens in the other process, and gives the values that it reads.
  std::string ReadElsewhere(const StatusOr<Tensor>& tensor) {
    if (!tensor.ok()) return std::string(Message(tensor.status()));
    TB_EXPECT_OK(tensor->Publish("shown", {.replace = true}));
    TB_EXPECT_OK(reader_->Open("t", "shown"));
    const StatusOr<std::string> header = reader_->HeaderOf("t");
    EXPECT_TRUE(header.ok() && *header == ToString(tensor->header())) << *header;
    const StatusOr<std::string> values = reader_->Values("t");
    return values.ok() ? *values : std::string(Message(values.status()));
  }

  Storage storage_;
  Agent* reader_ = nullptr;
  std::unique_ptr<RawClient> raw_;
};

// Case H1.
TEST_F(Headers, AnOffsetMustBeAMultipleOfTheTypesAlignment) {
  Start();
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {1}, {1}, 2}, DType::kFloat32), kInvalidArgument, "2", "4");
  TB_EXPECT_OK(Judge({wire::DTYPE_FLOAT32, {1}, {1}, 4}, DType::kFloat32));
  TB_EXPECT_OK(Judge({wire::DTYPE_COMPLEX128, {1}, {1}, 8}, DType::kComplex128));
  TB_EXPECT_ERROR(Judge({wire::DTYPE_COMPLEX128, {1}, {1}, 6}, DType::kComplex128), kInvalidArgument, "6",
                  "8");
  TB_EXPECT_OK(Judge({wire::DTYPE_UINT8, {1}, {1}, 1}, DType::kUInt8));

  EXPECT_EQ(ReadElsewhere(Over(DType::kUInt8, {3}, {1}, 1)), "1 2 3");
  const StatusOr<Tensor> complex = Over(DType::kComplex128, {2}, {1}, 8);
  TB_ASSERT_OK(complex.status());
  complex->data<std::complex<double>>()[1] = {1.5, -2};
  complex->data<std::complex<double>>()[0] = {3, 4};
  EXPECT_EQ(ReadElsewhere(complex), "3+4j 1.5+-2j");
  // 8 bytes are no multiple of 16: there is no offset in elements.
  TB_EXPECT_ERROR(complex->header().storage_offset(), kFailedPrecondition, "8");
}

// Case H2.
TEST_F(Headers, AHeaderThatReachesOutsideIsRefusedWithoutOverflow) {
  Start();
  const int64_t k32 = int64_t{1} << 32;
  TB_EXPECT_OK(Judge({wire::DTYPE_INT64, {1}, {1}, 56}, DType::kInt64));
  TB_EXPECT_ERROR(Judge({wire::DTYPE_INT64, {1}, {1}, 64}, DType::kInt64), kOutOfRange, "64");
  TB_EXPECT_ERROR(Judge({wire::DTYPE_UINT8, {1}, {1}, INT64_MAX - 9999}, DType::kUInt8), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {2}, {1}, INT64_MAX - 9999}, DType::kFloat32), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {k32, k32}, {k32, 1}, 0}, DType::kFloat32), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_UINT8, {int64_t{1} << 62}, {4}, 0}, DType::kUInt8), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {5, 2}, {10, 1}, 0}, DType::kFloat32), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {2}, {-1}, 0}, DType::kFloat32), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {2}, {INT64_MIN}, 0}, DType::kFloat32), kOutOfRange);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {-1}, {1}, 0}, DType::kFloat32), kInvalidArgument);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {2, 2}, {1}, 0}, DType::kFloat32), kInvalidArgument);
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, std::vector<int64_t>(65, 1), std::vector<int64_t>(65, 1), 0},
                        DType::kFloat32),
                  kInvalidArgument);
  // Zero strides may repeat one element as often as they like.
  TB_EXPECT_OK(Judge({wire::DTYPE_FLOAT32, {k32}, {0}, 0}, DType::kFloat32));
}

// Case H2.
TEST_F(Headers, AViewOfAViewStaysInsideIt) {
  Start();
  const StatusOr<Tensor> all = Over(DType::kUInt8, {64}, {1}, 0);
  TB_ASSERT_OK(all.status());
  const StatusOr<Tensor> half = all->Narrow(0, 32, 32);
  TB_ASSERT_OK(half.status());
  TB_EXPECT_ERROR(half->Narrow(0, 40, 8), kOutOfRange);
  TB_EXPECT_ERROR(half->AsStrided({8}, {1}, 60), kOutOfRange);
  EXPECT_EQ(ReadElsewhere(half->Narrow(0, 30, 2)), "62 63");
}

// Case H3.
TEST_F(Headers, ThreeHeadersOnOneStorageShareItsBytes) {
  StartBroker();
  const int64_t u0 = UsedBytes();
  StatusOr<Tensor> a = client().Arange(0, 6, 1, DType::kFloat32);
  TB_ASSERT_OK(a.status());
  const StatusOr<Tensor> whole = a->View(Dims{2, 3});
  TB_ASSERT_OK(whole.status());
  const int64_t one = UsedBytes();
  const StatusOr<Tensor> row = whole->Narrow(0, 0, 1);
  const StatusOr<Tensor> transposed = whole->T();
  TB_ASSERT_OK(row.status());
  TB_ASSERT_OK(transposed.status());
  EXPECT_EQ(transposed->strides(), (Dims{1, 3}));
  TB_ASSERT_OK(whole->Publish("whole"));
  TB_ASSERT_OK(row->Publish("row"));
  TB_ASSERT_OK(transposed->Publish("transposed"));
  EXPECT_GT(one, u0);
  EXPECT_EQ(UsedBytes(), one);
  std::vector<StorageRecord> listed;
  TB_ASSERT_OK(inspector().List({}, [&](StorageRecord record) { listed.push_back(std::move(record)); }));
  ASSERT_EQ(listed.size(), 1u);
  EXPECT_EQ(listed[0].names.size(), 3u);
  EXPECT_EQ(listed[0].holder_count, 1u);

  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("whole", "whole"));
  TB_ASSERT_OK(b.Open("row", "row"));
  TB_ASSERT_OK(b.Open("transposed", "transposed"));
  EXPECT_EQ(*b.Values("transposed"), "0 3 1 4 2 5");
  whole->data<float>()[1] = 7;
  EXPECT_EQ(*b.Values("whole"), "0 7 2 3 4 5");
  EXPECT_EQ(*b.Values("row"), "0 7 2");
  EXPECT_EQ(*b.Values("transposed"), "0 3 7 4 2 5");
  EXPECT_EQ(Holders(listed[0].id), 2);
}

// Case H4 (the header).
TEST_F(Headers, ANegativeStrideReadsBackwardsInAnotherProcess) {
  Start();
  const StatusOr<Tensor> forward = Over(DType::kFloat32, {4}, {1}, 0);
  TB_ASSERT_OK(forward.status());
  for (int i = 0; i < 4; ++i) forward->data<float>()[i] = static_cast<float>(i);
  TB_EXPECT_OK(Judge({wire::DTYPE_FLOAT32, {4}, {-1}, 12}, DType::kFloat32));
  EXPECT_EQ(ReadElsewhere(Over(DType::kFloat32, {4}, {-1}, 12)), "3 2 1 0");
  EXPECT_EQ(ReadElsewhere(forward->Flip({0})), "3 2 1 0");
  TB_EXPECT_ERROR(Judge({wire::DTYPE_FLOAT32, {4}, {-1}, 8}, DType::kFloat32), kOutOfRange);
}

// Cases H5, H11 (host).
TEST_F(Headers, AViewThatStridesCannotExpressSaysWhyAndWhatToCall) {
  StartBroker();
  const StatusOr<Tensor> flat = client().Arange(0, 6, 1, DType::kFloat32);
  TB_ASSERT_OK(flat.status());
  const StatusOr<Tensor> tensor = flat->View(Dims{2, 3});
  TB_ASSERT_OK(tensor.status());
  TB_ASSERT_OK(tensor->Publish("x"));
  const StatusOr<Tensor> opened = client().Open("x");
  TB_ASSERT_OK(opened.status());
  TB_EXPECT_ERROR(opened->T()->View(Dims{6}), kFailedPrecondition, "stride", "reshape");
  TB_EXPECT_ERROR(opened->View(Dims{4, 2}), kInvalidArgument, "6", "8");
  bool copied = false;
  const StatusOr<Tensor> reshaped = opened->T()->Reshape(Dims{6}, &copied);
  TB_ASSERT_OK(reshaped.status());
  EXPECT_TRUE(copied);
  EXPECT_NE(reshaped->storage().id(), opened->storage().id());
  TB_ASSERT_OK(reshaped->Publish("y"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("t", "y"));
  EXPECT_EQ(*b.Values("t"), "0 3 1 4 2 5");
}

// Case H6.
TEST_F(Headers, ASmallViewKeepsTheWholeStorageAndACloneOfItDoesNot) {
  StartBroker();
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  StatusOr<Tensor> large = client().Zeros({1000, 1000}, DType::kFloat32);
  TB_ASSERT_OK(large.status());
  const StorageId id = large->storage().id();
  StatusOr<Tensor> row = large->Narrow(0, 0, 1);
  TB_ASSERT_OK(row.status());
  *large = Tensor();
  TB_ASSERT_OK(client().Flush());
  EXPECT_EQ(Holders(id), 1);
  EXPECT_GE(UsedBytes(), u0 + 4'000'000);
  const StatusOr<Tensor> clone = row->Clone();
  TB_ASSERT_OK(clone.status());
  EXPECT_EQ(clone->numel(), 1000);
  EXPECT_EQ(clone->storage().nbytes(), 4000);
  EXPECT_EQ(Find(clone->storage().id())->size_bytes, 4000);
  *row = Tensor();
  EXPECT_TRUE(events.WaitForFreed(id));
  EXPECT_TRUE(Eventually(kHang, [&] { return UsedBytes() <= u0 + 4096; }));
}

// Case H11 (host).
TEST_F(Headers, AWriteThroughDetachIsSeenElsewhere) {
  StartBroker();
  const StatusOr<Tensor> tensor = client().Zeros({4}, DType::kFloat32, {.requires_grad = true});
  TB_ASSERT_OK(tensor.status());
  TB_ASSERT_OK(tensor->Publish("x"));
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Open("t", "x"));
  const Tensor alias = tensor->Detach();
  EXPECT_FALSE(alias.header().requires_grad());
  EXPECT_EQ(alias.data_ptr(), tensor->data_ptr());
  alias.data<float>()[2] = 5;
  EXPECT_EQ(*b.Values("t"), "0 0 5 0");
}

}  // namespace
}  // namespace tensorbroker::testing
