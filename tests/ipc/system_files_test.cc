#include "tensorbroker/ipc/system_files.h"

#include <gtest/gtest.h>

#include "tensorbroker/ipc/mounts.h"
#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using testing::ScratchDirectory;

TEST(SystemFiles, ANumberIsWhatAFileBeginsWith) {
  const ScratchDirectory root;
  root.Write("number", " 65530 12\n");
  root.Write("word", "max\n");
  root.Write("long", "99999999999999999999\n");
  EXPECT_EQ(ReadNumber(root / "number"), 65530);
  EXPECT_EQ(ReadNumber(root / "word"), std::nullopt);
  EXPECT_EQ(ReadNumber(root / "long"), std::nullopt);
  EXPECT_EQ(ReadNumber(root / "none"), std::nullopt);
  EXPECT_EQ(ReadSystemFile(root / "number"), " 65530 12\n");
}

TEST(SystemFiles, AKeyIsAWholeOne) {
  const char* meminfo =
      "MemTotal:       16000 kB\nSwapTotal:    8 kB\nSwapFree:     0 kB\nSwapTotalX: 1 kB\n";
  EXPECT_EQ(NumberOfKey(meminfo, "SwapTotal"), 8);
  EXPECT_EQ(NumberOfKey(meminfo, "SwapFree"), 0);
  EXPECT_EQ(NumberOfKey(meminfo, "Swap"), std::nullopt);
  EXPECT_EQ(NumberOfKey("inactive_file 7\n", "inactive_file"), 7);
  const char* limits =
      "Limit  Soft Limit Hard Limit Units\nMax open files            256         4096        files\n";
  EXPECT_EQ(NumberOfKey(limits, "Max open files"), 256);
  EXPECT_EQ(NumberOfKey("Max open files            unlimited   unlimited   files\n", "Max open files"),
            std::nullopt);
}

TEST(SystemFiles, TheChosenWordIsInBrackets) {
  EXPECT_EQ(ChosenWord("always within_size advise [never] deny force\n"), "never");
  EXPECT_EQ(ChosenWord("no brackets"), "");
  EXPECT_EQ(ChosenWord("]["), "");
  EXPECT_EQ(ReadChosenWord("/nonexistent"), "");
}

TEST(Mounts, EachLineIsReadAndBrokenOnesAreNot) {
  const ScratchDirectory root;
  root.Write("proc/self/mountinfo",
             "30 23 0:26 / /dev/shm rw,nosuid shared:9 - tmpfs shm rw,size=65536k,huge=advise\n"
             "broken line\n"
             "31 23 0:27 /a\\040b /mnt/c\\134d rw - tmpfs none rw\n");
  const std::vector<Mount> mounts = ReadMounts(root.path());
  ASSERT_EQ(mounts.size(), 2u);
  EXPECT_EQ(mounts[0].device, "0:26");
  EXPECT_EQ(mounts[0].mount_point, "/dev/shm");
  EXPECT_EQ(mounts[0].type, "tmpfs");
  EXPECT_EQ(MountOption(mounts[0].options, "huge"), "advise");
  EXPECT_EQ(MountOption(mounts[0].options, "rw"), "");
  EXPECT_EQ(MountOption(mounts[0].options, "hug"), std::nullopt);
  EXPECT_EQ(MountOption(mounts[0].options, "size"), "65536k");
  EXPECT_EQ(mounts[1].root, "/a b");
  EXPECT_EQ(mounts[1].mount_point, "/mnt/c\\d");
  EXPECT_TRUE(ReadMounts(root / "none").empty());
}

}  // namespace
}  // namespace tensorbroker
