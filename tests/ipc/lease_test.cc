#include "tensorbroker/ipc/lease.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace tensorbroker {
namespace {

LeaseFrame GetSegment(uint64_t request) {
  LeaseFrame frame;
  frame.type = LeaseType::kGetSegment;
  frame.request = request;
  frame.epoch = 0x1122334455667788;
  frame.serial = 42;
  frame.argument = 1;
  return frame;
}

LeaseFrame Bind() {
  LeaseFrame frame;
  frame.type = LeaseType::kBind;
  frame.request = 1;
  frame.payload = std::string(16, '\7');
  return frame;
}

std::string Raw(uint16_t type, uint16_t payload_bytes, uint32_t magic = kLeaseMagic) {
  const LeaseHeader header{magic, type, payload_bytes, 0, 0, 0, 0};
  return std::string(reinterpret_cast<const char*>(&header), sizeof(header)) +
         std::string(payload_bytes, 'p');
}

TEST(LeaseFrames, HaveTheBytesThatTheProtocolFixes) {
  const std::string bytes = EncodeLeaseFrame(GetSegment(7));
  const std::string expected(
      "TBL1"
      "\x02\x00"
      "\x00\x00"
      "\x07\x00\x00\x00\x00\x00\x00\x00"
      "\x88\x77\x66\x55\x44\x33\x22\x11"
      "\x2a\x00\x00\x00\x00\x00\x00\x00"
      "\x01\x00\x00\x00\x00\x00\x00\x00",
      40);
  EXPECT_EQ(bytes, expected);
}

TEST(LeaseFrames, ComeBackAsTheyWereHoweverTheStreamIsCut) {
  std::string stream;
  std::vector<LeaseFrame> sent;
  for (uint64_t i = 0; i < 50; ++i) {
    sent.push_back(i % 3 == 0   ? Bind()
                   : i % 3 == 1 ? GetSegment(i)
                                : LeaseErrorFrame(i, NotFoundError(std::string(i * 10, 'e'))));
    stream += EncodeLeaseFrame(sent.back());
  }
  std::mt19937 random(1);
  for (const size_t most : {1, 7, 39, 40, 41, 4096}) {
    LeaseDecoder decoder;
    std::vector<LeaseFrame> got;
    for (size_t at = 0; at < stream.size();) {
      const size_t length = std::min(1 + random() % most, stream.size() - at);
      ASSERT_TRUE(decoder.Push(std::string_view(stream).substr(at, length)).ok());
      at += length;
      while (auto frame = decoder.Pop()) got.push_back(*std::move(frame));
    }
    EXPECT_EQ(got, sent);
    EXPECT_EQ(decoder.buffered_bytes(), 0u);
  }
}

TEST(LeaseFrames, ErrorsKeepTheirCodeAndText) {
  const Status status = ResourceExhaustedError("no room");
  EXPECT_EQ(LeaseErrorStatus(LeaseErrorFrame(3, status)), status);
  LeaseFrame strange = LeaseErrorFrame(3, status);
  strange.argument = 4711;
  EXPECT_EQ(LeaseErrorStatus(strange).code(), StatusCode::kInternal);
  strange.argument = 0;  // an error is never OK
  EXPECT_EQ(LeaseErrorStatus(strange).code(), StatusCode::kInternal);
}

TEST(LeaseFrames, AnErrorsTextIsCutToWholeCharacters) {
  LeaseFrame frame = LeaseErrorFrame(1, NotFoundError(""));
  while (frame.payload.size() < 2000) frame.payload += "ö";
  frame.payload.insert(0, "x");
  LeaseDecoder decoder;
  ASSERT_TRUE(decoder.Push(EncodeLeaseFrame(frame)).ok());
  const auto got = decoder.Pop();
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->payload.size(), 1023u);
}

TEST(LeaseDecoders, RefuseWhatIsNoLease) {
  for (const std::string& bytes :
       {Raw(1, 16, 0x324C4254), Raw(0, 0), Raw(3, 0), Raw(64, 0), Raw(71, 0), Raw(0xFFFF, 0), Raw(1, 0),
        Raw(1, 15), Raw(1, 17), Raw(2, 1), Raw(67, 1025), Raw(69, 1), std::string(40, '\0')}) {
    LeaseDecoder decoder;
    EXPECT_EQ(decoder.Push(bytes).code(), StatusCode::kInvalidArgument);
    EXPECT_FALSE(decoder.Pop().has_value());
    EXPECT_EQ(decoder.Push(EncodeLeaseFrame(Bind())).code(), StatusCode::kInvalidArgument)
        << "refused for ever";
  }
}

TEST(LeaseDecoders, RefuseABadHeaderBeforeItsPayloadCame) {
  LeaseDecoder decoder;
  EXPECT_EQ(decoder.Push(std::string_view(Raw(67, 1025)).substr(0, 40)).code(), StatusCode::kInvalidArgument);
}

TEST(LeaseDecoders, HoldABoundedNumberOfBytes) {
  LeaseDecoder decoder;
  const std::string frame = EncodeLeaseFrame(GetSegment(1));
  Status status = OkStatus();
  for (size_t bytes = 0; bytes <= LeaseDecoder::kMaxBufferedBytes && status.ok(); bytes += frame.size()) {
    status = decoder.Push(frame);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
}

TEST(LeaseDecoders, TellAFrameThatWasCutOff) {
  LeaseDecoder decoder;
  ASSERT_TRUE(decoder.Push(std::string_view(EncodeLeaseFrame(Bind())).substr(0, 50)).ok());
  EXPECT_FALSE(decoder.Pop().has_value());
  EXPECT_EQ(decoder.buffered_bytes(), 50u);
}

}  // namespace
}  // namespace tensorbroker
