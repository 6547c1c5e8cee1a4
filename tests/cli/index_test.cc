#include "tensorbroker/cli/index.h"

#include <gtest/gtest.h>

namespace tensorbroker::cli {
namespace {

using Kind = IndexPart::Kind;

TEST(Index, ReadsWhatPythonReads) {
  const auto parts = ParseIndex("0:100, -3 ,::2,...,5:");
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(*parts, (std::vector<IndexPart>{{Kind::kSlice, 0, 0, 100, 1},
                                            {Kind::kIndex, -3, std::nullopt, std::nullopt, 1},
                                            {Kind::kSlice, 0, std::nullopt, std::nullopt, 2},
                                            {Kind::kEllipsis, 0, std::nullopt, std::nullopt, 1},
                                            {Kind::kSlice, 0, 5, std::nullopt, 1}}));
}

TEST(Index, RefusesWhatIsNoIndex) {
  for (const char* text :
       {"", "a", "1:2:3:4", "1,", "0x10", "1 2", ":-", "...,...", "99999999999999999999", "::0", "::-1"}) {
    const auto parts = ParseIndex(text);
    EXPECT_EQ(parts.status().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_NE(Message(parts.status()).find("slice"), std::string_view::npos) << parts.status();
  }
}

}  // namespace
}  // namespace tensorbroker::cli
