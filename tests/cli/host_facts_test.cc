#include "tensorbroker/cli/host_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace tensorbroker::cli {
namespace {

TEST(HostFacts, ThisMachineCanBeRead) {
  const HostFacts facts = GatherHostFacts(getpid(), getuid());
  EXPECT_GT(facts.max_map_count.value_or(0), 0);
  EXPECT_GT(facts.broker_fds.value_or(0), 2);
  EXPECT_GT(facts.shm_size_bytes.value_or(0), 0);
}

}  // namespace
}  // namespace tensorbroker::cli
