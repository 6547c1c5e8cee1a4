#include "tensorbroker/ipc/numa.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tensorbroker/ipc/mapping.h"

namespace tensorbroker {
namespace {

std::span<const std::byte> BytesOf(const Mapping& mapping) {
  return {static_cast<const std::byte*>(mapping.data()), static_cast<size_t>(mapping.size_bytes())};
}

TEST(Numa, PagesOfAFileHaveANodeAndNoBytesHaveNone) {
  const Fd fd(memfd_create("numa", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 100 * PageSize()), 0);
  const auto mapping = Mapping::Map(fd, 0, 100 * PageSize(), Access::kReadOnly);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  EXPECT_EQ(NumaNodes({}), std::vector<int32_t>{});
  const std::vector<int32_t> nodes = NumaNodes(BytesOf(*mapping));
  if (nodes.empty()) GTEST_SKIP() << "the kernel does not say (a container without CAP_SYS_NICE?)";
  for (const int32_t node : nodes) EXPECT_LT(node, 1024);
}

TEST(Numa, LostPagesAreNoSignal) {
  const Fd fd(memfd_create("numa", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(fd.get(), 100 * PageSize()), 0);
  const auto mapping = Mapping::Map(fd, 0, 100 * PageSize(), Access::kReadOnly);
  ASSERT_TRUE(mapping.ok()) << mapping.status();
  ASSERT_EQ(ftruncate(fd.get(), 0), 0);
  EXPECT_EQ(NumaNodes(BytesOf(*mapping)), std::vector<int32_t>{});
}

}  // namespace
}  // namespace tensorbroker
