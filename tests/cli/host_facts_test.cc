#include "tensorbroker/cli/host_facts.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include "tensorbroker/base/fd.h"
#include "tests/ipc/scratch.h"

namespace tensorbroker::cli {
namespace {

TEST(HostFacts, ThisMachineCanBeRead) {
  const HostFacts facts = GatherHostFacts(getpid(), getuid());
  EXPECT_GT(facts.max_map_count.value_or(0), 0);
  EXPECT_GT(facts.broker_fds.value_or(0), 2);
  EXPECT_GT(facts.shm_size_bytes.value_or(0), 0);
}

TEST(HostFacts, FilesOfADeadBrokerAreFoundAndThoseOfALiveOneAreNot) {
  const testing::ScratchDirectory scratch;
  const std::string text(5000, 'x');
  for (const std::string name :
       {"tensorbroker-7-a", "tensorbroker-0-live", "tensorbroker-0-dead", "tensorbroker-0-empty", "other"}) {
    const std::string directory = name.starts_with("tensorbroker-0")
                                      ? "tensorbroker-" + std::to_string(getuid()) + name.substr(14)
                                      : name;
    scratch.Write(directory + "/lock", "1\n");
    scratch.Write(directory + "/notes", text);
    if (!name.ends_with("empty")) scratch.Write(directory + "/00000000000000ab-1", text);
  }
  const std::string ours = scratch / ("tensorbroker-" + std::to_string(getuid()) + "-");
  const Fd lock(open((ours + "live/lock").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  const std::vector<Leftover> found = FindLeftovers(scratch.path(), getuid());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].directory, ours + "dead");
  EXPECT_EQ(found[0].files, 1);
  EXPECT_GE(found[0].bytes, 5000);
  EXPECT_TRUE(FindLeftovers(scratch / "none", getuid()).empty());
}

}  // namespace
}  // namespace tensorbroker::cli
