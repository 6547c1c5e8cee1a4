#include "tensorbroker/cli/table.h"

#include <gtest/gtest.h>

#include "tensorbroker/cli/progress.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

Table Example() {
  Table table({{"NAME", Align::kLeft, true}, {"BYTES", Align::kRight}, {"STATE"}});
  table.Add({"a", "1.0 KiB", "named"});
  table.Add({"train/重み/largest", "512 B", {"held", Style::kYellow}});
  return table;
}

TEST(Table, ColumnsLineUpAndNothingTrails) {
  EXPECT_EQ(Example().Render(Console{}),
            "NAME                  BYTES  STATE\n"
            "a                   1.0 KiB  named\n"
            "train/重み/largest    512 B  held\n");
}

TEST(Table, ColoursAddNoWidth) {
  EXPECT_EQ(Example().Render(Console{.color = true}),
            "\x1b[1mNAME\x1b[0m                  \x1b[1mBYTES\x1b[0m  \x1b[1mSTATE\x1b[0m\n"
            "a                   1.0 KiB  named\n"
            "train/重み/largest    512 B  \x1b[33mheld\x1b[0m\n");
}

TEST(Table, ANarrowTerminalCutsOnlyColumnsThatMayShrink) {
  const std::string text = Example().Render(Console{.width = 30});
  EXPECT_EQ(text,
            "NAME              BYTES  STATE\n"
            "a               1.0 KiB  named\n"
            "train/重み/la…    512 B  held\n");
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1) {
    EXPECT_LE(DisplayWidth(text.substr(begin, text.find('\n', begin) - begin)), 30);
  }
}

TEST(Progress, OneLineShowsShareRateAndTimeLeft) {
  const std::string line = ProgressLine("put digits.npy", 512 << 20, 1 << 30, std::chrono::seconds(2), 80);
  EXPECT_EQ(line, "put digits.npy  [###############................]   50 %  256 MiB/s  2.0 s left");
  EXPECT_LT(DisplayWidth(line), 80);
}

TEST(Progress, ItFitsTheTerminalWhateverItsWidth) {
  for (int columns = 20; columns < 140; ++columns) {
    for (const int64_t done : {0, 1, 999, 1000}) {
      const std::string line = ProgressLine("get a/rather/long/name/of/a/tensor", done, 1000,
                                            std::chrono::milliseconds(1), columns);
      EXPECT_LT(DisplayWidth(line), columns) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

TEST(Progress, AnEmptyFileIsDone) {
  EXPECT_NE(ProgressLine("put", 0, 0, Duration(0), 80).find("100 %"), std::string::npos);
}

}  // namespace
}  // namespace tensorbroker::cli
