#include "tensorbroker/files/npy_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;

// The first bytes of a file of version `major` whose header is `text`.
std::string File(std::string_view text, int major = 1) {
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  file += static_cast<char>(text.size() & 0xFF);
  file += static_cast<char>(text.size() >> 8 & 0xFF);
  if (major > 1) file += std::string_view("\0\0", 2);
  return file.append(text);
}

StatusOr<NpyInfo> Parse(std::string_view file, std::optional<DType> dtype = {}) {
  return ParseNpyHeader(std::as_bytes(std::span(file)), dtype);
}

StatusOr<NpyInfo> ParseText(std::string_view text) { return Parse(File(text)); }

std::string Dictionary(std::string_view descr, std::string_view shape = "(2, 3)") {
  return "{'descr': '" + std::string(descr) + "', 'fortran_order': False, 'shape': " + std::string(shape) +
         ", }";
}

void ExpectRefused(const StatusOr<NpyInfo>& result, StatusCode code, const std::string& reason) {
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.status().code(), code) << result.status();
  EXPECT_THAT(std::string(Message(result.status())), HasSubstr(reason));
}

TEST(NpyHeader, EveryVersionAndOrderIsRead) {
  for (int major : {1, 2, 3}) {
    const auto info = Parse(File("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }   \n", major));
    ASSERT_TRUE(info.ok()) << info.status();
    EXPECT_EQ(info->header, *Header::Make({.shape = {2, 3}, .strides = {1, 2}}));
    EXPECT_TRUE(info->fortran_order);
    EXPECT_FALSE(info->big_endian);
    EXPECT_EQ(info->data_offset, (major == 1 ? 10 : 12) + 62);
  }
}

TEST(NpyHeader, EveryDTypeIsReadAsWritten) {
  for (int i = 0; i < kNumDTypes; ++i) {
    const DType dtype = static_cast<DType>(i);
    for (const Dims& shape : {Dims{}, Dims{0}, Dims{7}, Dims{2, 3}, Dims(64, 1)}) {
      const Header header = *Header::Contiguous(shape, dtype);
      const std::string file = FormatNpyHeader(header, false);
      EXPECT_EQ(file.size() % 64, 0u);
      const auto info = Parse(file, dtype);
      ASSERT_TRUE(info.ok()) << info.status();
      EXPECT_EQ(info->header, header);
      EXPECT_EQ(info->data_offset, static_cast<int64_t>(file.size()));
    }
  }
}

TEST(NpyHeader, IsWrittenByteForByteAsNumPyDoes) {
  EXPECT_EQ(FormatNpyHeader(*Header::Contiguous({2, 3}, DType::kBool), false),
            std::string("\x93NUMPY\x01\x00v\x00", 10) +
                "{'descr': '|b1', 'fortran_order': False, 'shape': (2, 3), }" + std::string(58, ' ') + "\n");
}

TEST(NpyHeader, BigEndianNumbersAreMarked) {
  EXPECT_TRUE(ParseText(Dictionary(">f8"))->big_endian);
  EXPECT_FALSE(ParseText(Dictionary(">u1"))->big_endian);
  EXPECT_FALSE(ParseText(Dictionary("f4"))->big_endian);
}

TEST(NpyHeader, PythonsOwnSpellingsAreRead) {
  EXPECT_TRUE(ParseText("{\"shape\":(2L,3L,),\"descr\":\"<i8\",\"fortran_order\":False}").ok());
  EXPECT_EQ(ParseText(Dictionary("<i8", "(5,)"))->header.shape(), (Dims{5}));
  EXPECT_EQ(ParseText(Dictionary("<i8", "()"))->header.shape(), (Dims{}));
}

TEST(NpyHeader, BytesWithoutATypeNeedOne) {
  ExpectRefused(ParseText(Dictionary("<V2")), StatusCode::kInvalidArgument, "bfloat16");
  EXPECT_EQ(Parse(File(Dictionary("<V2")), DType::kBFloat16)->header.dtype(), DType::kBFloat16);
  EXPECT_EQ(Parse(File(Dictionary("<f1")), DType::kFloat8E5M2)->header.dtype(), DType::kFloat8E5M2);
  ExpectRefused(Parse(File(Dictionary("<V2")), DType::kFloat32), StatusCode::kInvalidArgument,
                "float32 of 4");
  ExpectRefused(Parse(File(Dictionary("<f4")), DType::kInt32), StatusCode::kInvalidArgument, "holds float32");
}

// Case H10.
TEST(NpyHeader, DTypesOutsideTheModelAreNamed) {
  for (const char* descr : {"|O", "<U5", "|S3", "<M8[ns]", "<f16", "<c32", "|V7", "", "<", "<f4x", "<f"}) {
    ExpectRefused(ParseText(Dictionary(descr)), StatusCode::kInvalidArgument, descr);
  }
  ExpectRefused(ParseText("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }"),
                StatusCode::kInvalidArgument, "structured");
}

TEST(NpyHeader, WhatIsNoHeaderIsRefusedWithTheReason) {
  const auto bad = [](std::string_view text, const std::string& reason) {
    ExpectRefused(ParseText(text), StatusCode::kInvalidArgument, reason);
  };
  bad("", "not a dictionary");
  bad("__import__('os').system('true')", "not a dictionary");
  bad("{'descr': '<f4', 'fortran_order': False}", "must have");
  bad("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "twice");
  bad("{'descr': '<f4', 'fortran_order': False, 'shape': (), 'x': 1}", "unknown key \"x\"");
  bad("{'descr': '<f4', 'fortran_order': 0, 'shape': ()}", "not True or False");
  bad("{'descr': '<f4' 'fortran_order': False}", "no ','");
  bad("{'descr' '<f4'}", "no ':'");
  bad("{'descr': '<f4", "does not end");
  bad("{'descr': '\\x3cf4'}", "escape");
  bad("{'descr': f4}", "not a string");
  bad(Dictionary("<f4") + "x", "more after");
  bad(Dictionary("<f4", "(3)"), "not a tuple");
  bad(Dictionary("<f4", "(3 4)"), "not a tuple");
  bad(Dictionary("<f4", "3"), "not a tuple");
  bad(Dictionary("<f4", "(,)"), "not an integer");
  bad(Dictionary("<f4", "(-1,)"), "negative size");
  bad(Dictionary("<f4", "(1.5,)"), "tuple");
  std::string many = "(";
  for (int i = 0; i < 65; ++i) many += "1,";
  bad(Dictionary("<f4", many + ")"), "64 dimensions");
}

TEST(NpyHeader, SizesThatNoMemoryHoldsAreOutOfRange) {
  ExpectRefused(ParseText(Dictionary("<f4", "(99999999999999999999,)")), StatusCode::kOutOfRange, "2^63");
  ExpectRefused(ParseText(Dictionary("<f4", "(4611686018427387904, 4)")), StatusCode::kOutOfRange, "2^63");
}

TEST(NpyHeader, WhatIsNoNpyFileIsSaidToBeNone) {
  ExpectRefused(Parse("PK\x03\x04 a zip file, .npz"), StatusCode::kInvalidArgument, "not a .npy file");
  ExpectRefused(Parse(""), StatusCode::kDataLoss, "ends inside its header");
  ExpectRefused(Parse(File("{}", 4)), StatusCode::kInvalidArgument, "version 4.0");
  const std::string whole = File(Dictionary("<f4"));
  for (size_t length = 0; length < whole.size(); ++length) {
    ExpectRefused(Parse(whole.substr(0, length)), StatusCode::kDataLoss, "ends inside its header");
  }
  ExpectRefused(Parse(std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12)), StatusCode::kInvalidArgument,
                "at most");
}

}  // namespace
}  // namespace tensorbroker
