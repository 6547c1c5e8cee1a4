#include "tensorbroker/cli/text.h"

#include <gtest/gtest.h>

namespace tensorbroker::cli {
namespace {

TEST(Text, UsualNamesStayAsTheyAre) {
  EXPECT_EQ(Printable("train/batch/0"), "train/batch/0");
  EXPECT_EQ(Printable("größe/重み/é \"quoted\" \\x"), "größe/重み/é \"quoted\" \\x");
}

TEST(Text, EscapeSequencesReachNoTerminal) {
  EXPECT_EQ(Printable("\x1b[2J\x1b]0;title\x07"), "\\x1b[2J\\x1b]0;title\\x07");
  EXPECT_EQ(Printable("a\nb\tc\rd"), "a\\nb\\tc\\x0dd");
  EXPECT_EQ(Printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(Printable("\x7f\u009b31m"), "\\x7f\\u009b31m") << "DEL, and C1's own CSI";
}

TEST(Text, DirectionOverridesAndInvisibleCharactersShow) {
  EXPECT_EQ(Printable("\u202etxt.exe"), "\\u202etxt.exe");
  EXPECT_EQ(Printable("a\u200bb\ufeff"), "a\\u200bb\\ufeff");
  EXPECT_EQ(Printable("\u2028\U000e0041"), "\\u2028\\U000e0041");
}

TEST(Text, BytesThatAreNoUtf8AreHexadecimal) {
  EXPECT_EQ(Printable("a\xff\xc3"), "a\\xff\\xc3");
  EXPECT_EQ(Printable("\xc0\xaf"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(Printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past the last code point";
}

TEST(Text, WidthIsWhatATerminalShows) {
  EXPECT_EQ(DisplayWidth("abc"), 3);
  EXPECT_EQ(DisplayWidth("größe"), 5);
  EXPECT_EQ(DisplayWidth("重み"), 4);
  EXPECT_EQ(DisplayWidth("e\u0301"), 1) << "a combining accent";
}

TEST(Text, CutKeepsWholeCharactersWithinTheColumns) {
  EXPECT_EQ(Cut("abcdef", 6), "abcdef");
  EXPECT_EQ(Cut("abcdef", 4), "abc…");
  EXPECT_EQ(Cut("重み重み", 4), "重…");
  EXPECT_EQ(Cut("abc", 1), "…");
}

TEST(Text, WrapBreaksAtSpacesOnly) {
  EXPECT_EQ(Wrap("one two three", 8), (std::vector<std::string>{"one two", "three"}));
  EXPECT_EQ(Wrap("a-very-long-word b", 5), (std::vector<std::string>{"a-very-long-word", "b"}));
  EXPECT_EQ(Wrap("", 5), std::vector<std::string>{""});
}

}  // namespace
}  // namespace tensorbroker::cli
