#include "tensorbroker/ipc/memory_info.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using testing::ScratchDirectory;

constexpr int64_t kMiB = int64_t{1} << 20;

TEST(MemoryInfo, ThisMachineHasSomeOfEach) {
  const StatusOr<FilesystemSpace> shm = GetFilesystemSpace("/dev/shm");
  ASSERT_TRUE(shm.ok());
  EXPECT_GT(shm->total_bytes, 0);
  EXPECT_LE(shm->free_bytes, shm->total_bytes);
  const StatusOr<int64_t> available = GetMemAvailable();
  ASSERT_TRUE(available.ok());
  EXPECT_GT(*available, 0);
  EXPECT_EQ(GetFilesystemSpace("/no/such/place").status().code(), StatusCode::kNotFound);
}

TEST(MemoryInfo, AMeminfoWithoutMemAvailableIsTold) {
  const ScratchDirectory root;
  EXPECT_EQ(GetMemAvailable({root.path()}).status().code(), StatusCode::kUnimplemented);
  root.Write("proc/meminfo", "MemTotal:  100 kB\nMemAvailable:   50 kB\n");
  EXPECT_EQ(*GetMemAvailable({root.path()}), 50 * 1024);
}

// Case C8.
TEST(Cgroups, EachAncestorsV2LimitIsFoundInnermostFirst) {
  const ScratchDirectory root;
  root.Write("proc/self/cgroup", "0::/system.slice/broker.service\n");
  root.Write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n");
  root.Write("sys/fs/cgroup/system.slice/broker.service/memory.max", "536870912\n");
  root.Write("sys/fs/cgroup/system.slice/broker.service/memory.current", "104857600\n");
  root.Write("sys/fs/cgroup/system.slice/broker.service/memory.stat",
             "anon 5\ninactive_file 52428800\nshmem 7\n");
  root.Write("sys/fs/cgroup/system.slice/memory.max", "max\n");
  root.Write("sys/fs/cgroup/system.slice/memory.current", "1\n");
  root.Write("sys/fs/cgroup/memory.max", "209715200\n");
  root.Write("sys/fs/cgroup/memory.current", "314572800\n");
  const auto levels = GetCgroupHeadrooms({root.path()});
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].path, "/sys/fs/cgroup/system.slice/broker.service/memory.max");
  EXPECT_EQ(levels[0].limit_bytes, 512 * kMiB);
  EXPECT_EQ(levels[0].headroom_bytes(), 462 * kMiB);  // inactive file pages can be dropped
  EXPECT_EQ(levels[1].path, "/sys/fs/cgroup/memory.max");
  EXPECT_EQ(levels[1].headroom_bytes(), 0);  // over its limit already
}

// Case C8.
TEST(Cgroups, EachAncestorsV1LimitIsFound) {
  const ScratchDirectory root;
  root.Write("proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
  root.Write("proc/self/mountinfo",
             "31 23 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
             "33 23 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  root.Write("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "268435456\n");
  root.Write("sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "67108864\n");
  root.Write("sys/fs/cgroup/memory/docker/abc/memory.stat", "total_inactive_file 33554432\n");
  root.Write("sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");  // no limit
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  const auto levels = GetCgroupHeadrooms({root.path()});
  ASSERT_EQ(levels.size(), 1u);
  EXPECT_EQ(levels[0].headroom_bytes(), 224 * kMiB);
}

TEST(Cgroups, AContainersOwnRootIsReadWhereItIsMounted) {
  // In a container the mount shows the container's own group as its root.
  const ScratchDirectory root;
  root.Write("proc/self/cgroup", "4:memory:/docker/abc/inner\n");
  root.Write("proc/self/mountinfo",
             "33 23 0:29 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  root.Write("sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1048576\n");
  root.Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "2097152\n");
  const auto levels = GetCgroupHeadrooms({root.path()});
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].limit_bytes, kMiB);
  EXPECT_EQ(levels[1].limit_bytes, 2 * kMiB);
}

TEST(Cgroups, NoneThatCanBeReadIsNoLimit) {
  const ScratchDirectory root;
  EXPECT_TRUE(GetCgroupHeadrooms({root.path()}).empty());
}

}  // namespace
}  // namespace tensorbroker
