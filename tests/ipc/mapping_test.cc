#include "tensorbroker/ipc/mapping.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "tests/ipc/scratch.h"
#include "tests/support/scale.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;
using testing::InChild;
using testing::kSanitized;
using testing::ScratchDirectory;

Fd NewFile(int64_t bytes) {
  Fd fd(memfd_create("mapping_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), bytes), 0);
  return fd;
}

std::string Text(const Status& status) { return std::string(Message(status)); }

TEST(Mappings, TwoOfOneFileShareTheirBytes) {
  const Fd fd = NewFile(8192);
  StatusOr<Mapping> writer = Mapping::Map(fd, 0, 8192, Access::kReadWrite);
  StatusOr<Mapping> reader = Mapping::Map(fd, 4096, 4096, Access::kReadOnly);
  ASSERT_TRUE(writer.ok() && reader.ok());
  std::strcpy(static_cast<char*>(writer->data()) + 4096, "seen");
  EXPECT_STREQ(static_cast<const char*>(reader->data()), "seen");
  EXPECT_EQ(reader->size_bytes(), 4096);
}

TEST(Mappings, OutliveTheirDescriptorAndMove) {
  Mapping kept;
  EXPECT_FALSE(kept.valid());
  {
    const Fd fd = NewFile(4096);
    StatusOr<Mapping> mapping = Mapping::Map(fd, 0, 4096, Access::kReadWrite);
    ASSERT_TRUE(mapping.ok());
    static_cast<char*>(mapping->data())[0] = 'x';
    kept = *std::move(mapping);
    EXPECT_FALSE(mapping->valid());
  }
  EXPECT_EQ(static_cast<const char*>(kept.data())[0], 'x');
}

TEST(Mappings, EndWithTheirObject) {
  const Fd fd = NewFile(4096);
  void* address;
  {
    const StatusOr<Mapping> mapping = Mapping::Map(fd, 0, 4096, Access::kReadOnly);
    ASSERT_TRUE(mapping.ok());
    address = mapping->data();
  }
  unsigned char resident;
  EXPECT_EQ(mincore(address, 4096, &resident), -1);
}

TEST(Mappings, AreLeftOutOfCoreDumps) {
  const Fd fd = NewFile(4096);
  const StatusOr<Mapping> mapping = Mapping::Map(fd, 0, 4096, Access::kReadOnly);
  ASSERT_TRUE(mapping.ok());
  std::ifstream smaps("/proc/self/smaps");
  bool found = false;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find("mapping_test") != std::string::npos) found = true;
    if (found && line.starts_with("VmFlags:")) {
      EXPECT_THAT(line, HasSubstr(" dd"));
      return;
    }
  }
  FAIL() << "the mapping is not in smaps";
}

TEST(Mappings, BadSizesAndOffsetsAreInvalid) {
  const Fd fd = NewFile(8192);
  EXPECT_EQ(Mapping::Map(fd, 0, 0, Access::kReadOnly).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Mapping::Map(fd, 0, -1, Access::kReadOnly).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Mapping::Map(fd, 8, 8, Access::kReadOnly).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Mapping::Map(fd, -4096, 8, Access::kReadOnly).status().code(), StatusCode::kInvalidArgument);
}

// Case S4.
TEST(Mappings, AReadOnlyDescriptorGivesNoWritableOne) {
  const Fd fd = NewFile(4096);
  const Fd read_only(open(("/proc/self/fd/" + std::to_string(fd.get())).c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_EQ(Mapping::Map(read_only, 0, 4096, Access::kReadWrite).status().code(),
            StatusCode::kPermissionDenied);
  const StatusOr<Mapping> mapping = Mapping::Map(read_only, 0, 4096, Access::kReadOnly);
  ASSERT_TRUE(mapping.ok());
  EXPECT_EQ(mprotect(mapping->data(), 4096, PROT_READ | PROT_WRITE), -1);
}

TEST(Mappings, WhatIsNoFileIsRefused) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Fd reading(ends[0]), writing(ends[1]);
  EXPECT_EQ(Mapping::Map(reading, 0, 4096, Access::kReadOnly).status().code(),
            StatusCode::kFailedPrecondition);
  EXPECT_EQ(Mapping::Map(-1, 0, 4096, Access::kReadOnly).status().code(), StatusCode::kFailedPrecondition);
}

// Case L2.
TEST(Mappings, TheAddressSpaceLimitIsNamed) {
  if (kSanitized) GTEST_SKIP() << "sanitizers need more address space than the limit leaves";
  const Fd fd = NewFile(int64_t{1} << 30);
  EXPECT_EQ(InChild([&fd] {
              const int64_t limit_bytes = int64_t{256} << 20;
              const rlimit limit{static_cast<rlim_t>(limit_bytes), static_cast<rlim_t>(limit_bytes)};
              setrlimit(RLIMIT_AS, &limit);
              const Status status = Mapping::Map(fd, 0, int64_t{1} << 30, Access::kReadOnly).status();
              return status.code() == StatusCode::kResourceExhausted &&
                             Text(status).find("RLIMIT_AS") != std::string::npos &&
                             Text(status).find("256 MiB") != std::string::npos
                         ? 0
                         : 1;
            }),
            0);
}

// Case C2.
TEST(Mappings, TheLimitOnTheirNumberIsNamed) {
  const ScratchDirectory scratch;
  scratch.Write("maps", "one\ntwo\nthree\n");
  scratch.Write("limit", "4\n");
  const Status status = ExplainMapFailure(4096, scratch / "maps", scratch / "limit");
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(status), HasSubstr("3 mappings"));
  EXPECT_THAT(Text(status), HasSubstr("sysctl -w vm.max_map_count=16"));
  scratch.Write("limit", "65530\n");
  EXPECT_THAT(Text(ExplainMapFailure(4096, scratch / "maps", scratch / "limit")),
              ::testing::Not(HasSubstr("max_map_count")));
}

// Case C2.
TEST(Mappings, RunningIntoMaxMapCountNamesThatLimit) {
  if (kSanitized) GTEST_SKIP() << "sanitizers abort where they cannot map";
  int64_t limit = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> limit;
  if (limit <= 0 || limit > 200000) GTEST_SKIP() << "vm.max_map_count is " << limit;
  const Fd fd = NewFile(8192);
  EXPECT_EQ(InChild([&fd, limit] {
              // Neighbours of one offset are not merged.
              for (int64_t i = 0; i < limit; ++i) {
                if (mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd.get(), 0) == MAP_FAILED) break;
              }
              const Status status = Mapping::Map(fd, 0, 4096, Access::kReadOnly).status();
              return Text(status).find("vm.max_map_count") != std::string::npos ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace tensorbroker
