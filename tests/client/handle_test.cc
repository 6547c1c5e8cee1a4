#include "tensorbroker/client/handle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tensorbroker/base/hash.h"

namespace tensorbroker::internal {
namespace {

using ::testing::HasSubstr;

TransferHandle Example() {
  TransferHandle handle;
  handle.storage = {0x1122334455667788, 42};
  handle.token = Token::Random();
  handle.access = GrantAccess::kReadWrite;
  HeaderFields fields;
  fields.shape = {2, 3, 4, 5, 6, 7};
  fields.strides = {-2520, 840, 210, 42, 0, 1};
  fields.offset_bytes = 65536;
  fields.dtype = DType::kFloat8E4M3FN;
  fields.requires_grad = true;
  handle.header = *Header::Make(fields);
  return handle;
}

TEST(Handle, SurvivesTheWay) {
  const TransferHandle handle = Example();
  const StatusOr<TransferHandle> back = DecodeHandle(EncodeHandle(handle));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->storage, handle.storage);
  EXPECT_TRUE(back->token.Matches(handle.token));
  EXPECT_EQ(back->access, handle.access);
  EXPECT_EQ(back->header, handle.header);
}

TEST(Handle, IsSmallAtUsualRanks) {
  TransferHandle handle = Example();
  EXPECT_LT(EncodeHandle(handle).size(), 150u);
  HeaderFields fields;
  fields.shape = {1, 1, 1, 1, 1, INT64_MAX / 16};
  fields.strides = Dims(6, INT64_MIN);
  fields.strides[5] = 1;
  fields.dtype = DType::kUInt8;
  handle.header = *Header::Make(fields);
  EXPECT_LT(EncodeHandle(handle).size(), 400u);
}

TEST(Handle, CutOrAlteredAtAnyByteIsRefused) {
  const std::string good = EncodeHandle(Example());
  for (size_t i = 0; i < good.size(); ++i) {
    EXPECT_FALSE(DecodeHandle(good.substr(0, i)).ok()) << i;
    std::string altered = good;
    altered[i] = static_cast<char>(altered[i] ^ 0x5A);
    EXPECT_FALSE(DecodeHandle(altered).ok()) << i;
  }
  EXPECT_FALSE(DecodeHandle(good + "x").ok());
  EXPECT_EQ(DecodeHandle("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(DecodeHandle(std::string(10'000, '\xFF')).status().code(), StatusCode::kInvalidArgument);
}

// A forger who knows the checksum still meets the header's rules.
TEST(Handle, WithAHeaderThatCannotBeIsRefused) {
  std::string bytes = EncodeHandle(Example());
  const auto resign = [](std::string body) {
    const uint64_t sum = Fnv1a(body);
    for (int i = 0; i < 8; ++i) body.push_back(static_cast<char>(sum >> (8 * i)));
    return body;
  };
  const std::string body = bytes.substr(0, bytes.size() - 8);
  EXPECT_TRUE(DecodeHandle(resign(body)).ok());
  for (size_t i = 4; i < body.size(); ++i) {
    for (const int value : {0x00, 0x7F, 0x80, 0xFF}) {
      std::string altered = body;
      altered[i] = static_cast<char>(value);
      const StatusOr<TransferHandle> decoded = DecodeHandle(resign(altered));
      // Whatever it says now, it is a header that keeps its invariant, or a refusal.
      if (!decoded.ok()) {
        EXPECT_EQ(decoded.status().code(), StatusCode::kInvalidArgument) << decoded.status();
      }
    }
  }
}

TEST(Handle, OfALaterFormatSaysWhoIsOlder) {
  std::string bytes = EncodeHandle(Example());
  bytes[3] = '2';
  const Status status = DecodeHandle(bytes).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("upgrade"));
}

}  // namespace
}  // namespace tensorbroker::internal
