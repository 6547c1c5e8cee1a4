#include "tensorbroker/base/text.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tensorbroker/base/hash.h"
#include "tensorbroker/base/utf8.h"

namespace tensorbroker {
namespace {

TEST(Text, TrimTakesWhiteSpaceOfBothEnds) {
  EXPECT_EQ(Trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(Trim(" \n"), "");
  EXPECT_EQ(Trim(""), "");
}

TEST(Text, ANumberLeads) {
  EXPECT_EQ(LeadingNumber(" 12 kB"), 12);
  EXPECT_EQ(LeadingNumber("-3"), -3);
  EXPECT_EQ(LeadingNumber("x1"), std::nullopt);
  EXPECT_EQ(LeadingNumber("9223372036854775808"), std::nullopt);
}

TEST(Text, LinesEndAtNewlinesOrTheEnd) {
  std::vector<std::string> lines;
  ForEachLine("a\n\nb", [&](std::string_view line) { lines.emplace_back(line); });
  EXPECT_EQ(lines, (std::vector<std::string>{"a", "", "b"}));
}

TEST(Utf8, CharactersAreReadAndBrokenOnesAreNot) {
  const auto decodes = [](std::string_view text, uint32_t value, size_t bytes) {
    const CodePoint c = DecodeUtf8(text);
    return c.value == value && c.bytes == bytes;
  };
  EXPECT_TRUE(decodes("a", 'a', 1));
  EXPECT_TRUE(decodes("\xc3\xb6x", 0xF6, 2));
  EXPECT_TRUE(decodes("\xef\xbf\xbd", 0xFFFD, 3));
  EXPECT_TRUE(decodes("\xf4\x8f\xbf\xbf", 0x10FFFF, 4));
  for (const char* broken : {"\x80", "\xc0\xaf", "\xc3", "\xc3x", "\xe0\x80\x80", "\xed\xa0\x80",
                             "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff"}) {
    EXPECT_EQ(DecodeUtf8(broken).bytes, 0u) << broken;
  }
}

TEST(Utf8, APrefixCutsNoCharacter) {
  EXPECT_EQ(Utf8Prefix("a\xc3\xb6", 3), "a\xc3\xb6");
  EXPECT_EQ(Utf8Prefix("a\xc3\xb6", 2), "a");
  EXPECT_EQ(Utf8Prefix("\xc3\xb6", 1), "");
}

TEST(Hash, IsFnv1a) {
  static_assert(Fnv1a("") == 0xCBF29CE484222325u);
  EXPECT_EQ(Fnv1a("a"), 0xAF63DC4C8601EC8Cu);
  EXPECT_EQ(Fnv1a("foobar"), 0x85944171F73967E8u);
}

}  // namespace
}  // namespace tensorbroker
