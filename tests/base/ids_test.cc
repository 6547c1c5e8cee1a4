#include "tensorbroker/base/ids.h"

#include <gtest/gtest.h>

namespace tensorbroker {
namespace {

TEST(Ids, TextFormReadsBack) {
  const StorageId id{0x9f3a61c204d7be15, 18446744073709551615u};
  EXPECT_EQ(ToString(id), "9f3a61c204d7be15-18446744073709551615");
  StorageId parsed;
  ASSERT_TRUE(ParseId(ToString(id), &parsed).ok());
  EXPECT_EQ(parsed, id);
}

TEST(Ids, EveryOtherTextIsRefusedAndLeavesTheIdAlone) {
  for (const char* text :
       {"", "-", "12", "9f3a61c204d7be15", "9f3a61c204d7be15-", "9f3a61c204d7be15-x", "9f3a61c204d7be15-1 ",
        "gf3a61c204d7be15-1", "9f3a61c204d7be15--1", "9f3a61c204d7be15-18446744073709551616",
        "0x3a61c204d7be15-1", " f3a61c204d7be15-1"}) {
    StorageId id{7, 8};
    EXPECT_EQ(ParseId(text, &id).code(), StatusCode::kInvalidArgument) << text;
    EXPECT_EQ(id, (StorageId{7, 8})) << text;
  }
}

TEST(Tokens, MatchThemselvesOnly) {
  const Token a = Token::Random();
  const Token b = Token::Random();
  EXPECT_TRUE(a.Matches(a));
  EXPECT_FALSE(a.Matches(b));
  EXPECT_TRUE(a.Matches(*Token::FromBytes(a.bytes())));
}

TEST(Tokens, TheEmptyTokenMatchesNothing) {
  EXPECT_FALSE(Token().Matches(Token()));
  EXPECT_FALSE(Token().Matches(Token::Random()));
}

TEST(Tokens, OfAnotherLengthAreRefused) {
  EXPECT_EQ(Token::FromBytes("").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Token::FromBytes(std::string(17, 'x')).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbroker
