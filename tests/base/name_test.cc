#include "tensorbroker/base/name.h"

#include <gtest/gtest.h>

#include <string>

namespace tensorbroker {
namespace {

TEST(Names, PathLikeKeysAreAccepted) {
  for (const char* name :
       {"a", "train/batch/0", "weights.conv1-3_b", "spaces are fine", "größe/重み", "...", ".hidden"}) {
    EXPECT_TRUE(CheckName(name).ok()) << CheckName(name);
  }
  EXPECT_TRUE(CheckName(std::string(255, 'n')).ok());
}

// Case S1.
TEST(Names, HostileOnesAreRefusedWithTheirRule) {
  using namespace std::string_literals;
  for (const std::string& name : {""s,
                                  "../x"s,
                                  "/x"s,
                                  "///x"s,
                                  "x/"s,
                                  "a//b"s,
                                  "a/./b"s,
                                  "."s,
                                  "a\0b"s,
                                  "a\nb"s,
                                  "\x1b[31m"s,
                                  "\x7f"s,
                                  "a\xc2\x85"s,
                                  "\xff"s,
                                  "\xc0\xaf"s,
                                  "\xed\xa0\x80"s,
                                  "\xf4\x90\x80\x80"s,
                                  "\xe9"s,
                                  std::string(256, 'n'),
                                  std::string(300, 'n')}) {
    const Status status = CheckName(name);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << name;
    for (const char c : Message(status))
      EXPECT_GE(static_cast<unsigned char>(c), 0x20) << "unescaped control character";
  }
}

TEST(Names, ControlCharactersAreFoundInAnyText) {
  EXPECT_FALSE(HasControlCharacters("größe / \xff 重み"));
  EXPECT_TRUE(HasControlCharacters("a\x1b[31m"));
  EXPECT_TRUE(HasControlCharacters("a\x7f"));
  EXPECT_TRUE(HasControlCharacters("a\xc2\x9b"));
}

TEST(Names, QuotedTextIsSafeToPrint) {
  EXPECT_EQ(QuoteForMessage("a\x01\"\\b"), "\"a\\x01\\x22\\x5cb\"");
  EXPECT_EQ(QuoteForMessage("\xff"), "\"\\xff\"");
  EXPECT_LT(QuoteForMessage(std::string(10000, 'x')).size(), 100u);
}

}  // namespace
}  // namespace tensorbroker
