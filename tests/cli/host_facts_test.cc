#include "tensorbroker/cli/host_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tensorbroker::cli {
namespace {

TEST(HostFacts, MeminfoIsInKibibytes) {
  const char* text = "MemTotal:       16000 kB\nSwapTotal:    8 kB\nSwapFree:     0 kB\nSwapTotalX: 1 kB\n";
  EXPECT_EQ(MeminfoBytes(text, "SwapTotal"), 8192);
  EXPECT_EQ(MeminfoBytes(text, "SwapFree"), 0);
  EXPECT_EQ(MeminfoBytes(text, "Swap"), std::nullopt);
}

TEST(HostFacts, TheLastRemoveIpcCountsAndCommentsDoNot) {
  EXPECT_EQ(RemoveIpcSetting("[Login]\n#RemoveIPC=no\n"), std::nullopt);
  EXPECT_EQ(RemoveIpcSetting("[Login]\nRemoveIPC=yes\n RemoveIPC = no\n"), false);
  EXPECT_EQ(RemoveIpcSetting("RemoveIPC=on"), true);
  EXPECT_EQ(RemoveIpcSetting("RemoveIPC=perhaps"), std::nullopt);
}

TEST(HostFacts, OpenFilesIsTheSoftLimit) {
  EXPECT_EQ(
      OpenFilesLimit(
          "Limit  Soft Limit Hard Limit Units\nMax open files            256         4096        files\n"),
      256);
  EXPECT_EQ(OpenFilesLimit("Max open files            unlimited   unlimited   files\n"), std::nullopt);
  EXPECT_EQ(OpenFilesLimit(""), std::nullopt);
}

TEST(HostFacts, TheHugeOptionIsThatOfTheLastMount) {
  const char* text =
      "tmpfs /dev tmpfs rw,huge=never 0 0\nshm /dev/shm tmpfs rw,size=65536k 0 0\nshm /dev/shm tmpfs "
      "rw,huge=advise,mode=1777 0 0\n";
  EXPECT_EQ(MountHugeOption(text, "/dev/shm"), "advise");
  EXPECT_EQ(MountHugeOption(text, "/dev"), "never");
  EXPECT_EQ(MountHugeOption(text, "/"), "");
  EXPECT_EQ(MountHugeOption("broken line\n", "/"), "");
}

TEST(HostFacts, ChosenWordIsInBrackets) {
  EXPECT_EQ(ChosenWord("always within_size advise [never] deny force\n"), "never");
  EXPECT_EQ(ChosenWord("no brackets"), "");
  EXPECT_EQ(ChosenWord("]["), "");
}

TEST(HostFacts, ThisMachineCanBeRead) {
  const HostFacts facts = GatherHostFacts(getpid(), getuid());
  EXPECT_GT(facts.max_map_count.value_or(0), 0);
  EXPECT_GT(facts.broker_fds.value_or(0), 2);
  EXPECT_GT(facts.shm_size_bytes.value_or(0), 0);
}

}  // namespace
}  // namespace tensorbroker::cli
