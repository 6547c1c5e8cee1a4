// What each source of Segments promises: one suite over all of them.
#include "tensorbroker/storage/segment_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensorbroker/ipc/mapping.h"
#include "tensorbroker/storage/heap_source.h"
#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using testing::CountOpenFds;
using testing::InChild;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr uint64_t kEpoch = 0x1234;

// The Segment's bytes, wherever this source keeps them.
class View {
 public:
  explicit View(Segment& segment) {
    if (segment.info().kind == SourceKind::kHeap) {
      bytes_ = HeapSource::Bytes(segment);
      return;
    }
    const StatusOr<Fd> fd = segment.OpenForGrant(Access::kReadWrite);
    EXPECT_TRUE(fd.ok()) << fd.status();
    StatusOr<Mapping> mapping = Mapping::Map(*fd, 0, segment.info().size_bytes, Access::kReadWrite);
    EXPECT_TRUE(mapping.ok()) << mapping.status();
    mapping_ = *std::move(mapping);
    bytes_ = {static_cast<std::byte*>(mapping_.data()), static_cast<size_t>(mapping_.size_bytes())};
  }
  std::span<std::byte> bytes() const { return bytes_; }

 private:
  Mapping mapping_;
  std::span<std::byte> bytes_;
};

class SegmentSources : public ::testing::TestWithParam<SourceKind> {
 protected:
  void SetUp() override {
    fds_before_ = CountOpenFds();
    StatusOr<std::unique_ptr<SegmentSource>> source =
        OpenSource({.kind = GetParam(), .instance = "contract-test-" + std::to_string(getpid())});
    if (source.status().code() == StatusCode::kUnimplemented) GTEST_SKIP() << Message(source.status());
    ASSERT_TRUE(source.ok()) << source.status();
    source_ = *std::move(source);
  }

  void TearDown() override {
    if (source_ == nullptr) return;
    const std::string place = source_->info().place;
    source_.reset();
    EXPECT_EQ(CountOpenFds(), fds_before_);
    if (!place.empty()) {
      EXPECT_NE(access(place.c_str(), F_OK), 0) << "the directory is left";
    }
  }

  bool Shares() const { return GetParam() != SourceKind::kHeap; }

  std::shared_ptr<Segment> Claim(int64_t size_bytes) {
    StatusOr<std::shared_ptr<Segment>> segment = source_->Claim({kEpoch, ++serial_}, size_bytes, {});
    EXPECT_TRUE(segment.ok()) << segment.status();
    return segment.ok() ? *std::move(segment) : nullptr;
  }

  std::unique_ptr<SegmentSource> source_;
  uint64_t serial_ = 0;
  int fds_before_ = 0;
};

// Cases F1, F2.
TEST_P(SegmentSources, BytesAreZeroAndWritableToTheLastPage) {
  for (const int64_t size : {int64_t{1}, int64_t{4096}, int64_t{4097}, 3 * kMiB + 5}) {
    const std::shared_ptr<Segment> segment = Claim(size);
    ASSERT_NE(segment, nullptr);
    EXPECT_GE(segment->info().size_bytes, size);
    EXPECT_LT(segment->info().size_bytes, size + source_->info().page_bytes);
    EXPECT_EQ(segment->info().size_bytes % source_->info().page_bytes, 0);
    EXPECT_EQ(segment->info().kind, GetParam());
    const View view(*segment);
    EXPECT_TRUE(
        std::all_of(view.bytes().begin(), view.bytes().end(), [](std::byte b) { return b == std::byte{0}; }));
    std::memset(view.bytes().data(), 0xFF, view.bytes().size());
  }
}

TEST_P(SegmentSources, AllPagesAreReservedAtOnce) {
  if (!Shares()) GTEST_SKIP() << "heap pages come from malloc";
  const std::shared_ptr<Segment> segment = Claim(5 * kMiB);
  ASSERT_NE(segment, nullptr);
  const StatusOr<Fd> fd = segment->OpenForGrant(Access::kReadOnly);
  ASSERT_TRUE(fd.ok());
  struct stat info {};
  ASSERT_EQ(fstat(fd->get(), &info), 0);
  EXPECT_EQ(info.st_size, segment->info().size_bytes);
  EXPECT_GE(static_cast<int64_t>(info.st_blocks) * 512, segment->info().size_bytes);
}

// Case C4.
TEST_P(SegmentSources, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(source_->Claim({kEpoch, 1}, 0, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(source_->Claim({kEpoch, 2}, -1, {}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(source_->Claim({kEpoch, 3}, int64_t{1} << 60, {}).status().code(),
            StatusCode::kResourceExhausted);
  EXPECT_EQ(source_->Claim({kEpoch, 4}, INT64_MAX, {}).status().code(), StatusCode::kResourceExhausted);
}

TEST_P(SegmentSources, WritersAndReadersSeeTheSameBytes) {
  if (!Shares()) GTEST_SKIP() << "heap memory cannot be shared";
  const std::shared_ptr<Segment> segment = Claim(4096);
  ASSERT_NE(segment, nullptr);
  const View view(*segment);
  std::memcpy(view.bytes().data(), "hello", 6);
  const StatusOr<Fd> fd = segment->OpenForGrant(Access::kReadOnly);
  ASSERT_TRUE(fd.ok());
  EXPECT_NE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, 0);
  const StatusOr<Mapping> reader = Mapping::Map(*fd, 0, segment->info().size_bytes, Access::kReadOnly);
  ASSERT_TRUE(reader.ok());
  EXPECT_STREQ(static_cast<const char*>(reader->data()), "hello");
}

// Case S4.
TEST_P(SegmentSources, AReadOnlyGrantCannotBeWrittenTruncatedOrMappedWritable) {
  const std::shared_ptr<Segment> segment = Claim(2 * 4096);
  ASSERT_NE(segment, nullptr);
  const StatusOr<Fd> fd = segment->OpenForGrant(Access::kReadOnly);
  if (!Shares()) {
    EXPECT_EQ(fd.status().code(), StatusCode::kUnimplemented);
    return;
  }
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_EQ(write(fd->get(), "x", 1), -1);
  EXPECT_EQ(ftruncate(fd->get(), 0), -1);
  EXPECT_EQ(fallocate(fd->get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, segment->info().size_bytes),
            -1);
  const size_t size = static_cast<size_t>(segment->info().size_bytes);
  EXPECT_EQ(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd->get(), 0), MAP_FAILED);
  void* mapped = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd->get(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  EXPECT_EQ(mprotect(mapped, size, PROT_READ | PROT_WRITE), -1);
  munmap(mapped, size);
}

// Case S4.
TEST_P(SegmentSources, AnotherUidCannotOpenAReadOnlyGrantAgain) {
  if (!Shares()) GTEST_SKIP() << "heap memory cannot be shared";
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another uid";
  const std::shared_ptr<Segment> segment = Claim(4096);
  ASSERT_NE(segment, nullptr);
  const StatusOr<Fd> fd = segment->OpenForGrant(Access::kReadOnly);
  ASSERT_TRUE(fd.ok());
  const std::string path = "/proc/self/fd/" + std::to_string(fd->get());
  EXPECT_EQ(InChild([&path] {
              if (setgid(4242) != 0 || setuid(4242) != 0) return 2;
              return open(path.c_str(), O_RDWR) < 0 && open(path.c_str(), O_RDONLY) < 0 ? 0 : 1;
            }),
            0);
}

TEST_P(SegmentSources, RetiringGivesThePagesBackThoughTheyAreMapped) {
  const std::shared_ptr<Segment> segment = Claim(4 * kMiB);
  ASSERT_NE(segment, nullptr);
  if (!Shares()) {
    segment->Retire();
    EXPECT_TRUE(HeapSource::Bytes(*segment).empty());
    EXPECT_EQ(source_->Space().free_bytes, source_->Space().total_bytes);
    return;
  }
  const StatusOr<Fd> fd = segment->OpenForGrant(Access::kReadOnly);
  ASSERT_TRUE(fd.ok());
  const View view(*segment);
  std::memset(view.bytes().data(), 0xAB, view.bytes().size());
  segment->Retire();
  segment->Retire();
  struct stat info {};
  ASSERT_EQ(fstat(fd->get(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
  EXPECT_EQ(segment->OpenForGrant(Access::kReadOnly).status().code(), StatusCode::kFailedPrecondition);
}

TEST_P(SegmentSources, LeavingASegmentKeepsItsBytesForThoseWhoHaveThemMapped) {
  if (!Shares()) GTEST_SKIP() << "nobody else has heap memory mapped";
  std::shared_ptr<Segment> segment = Claim(kMiB);
  ASSERT_NE(segment, nullptr);
  const View view(*segment);
  std::memset(view.bytes().data(), 0xAB, view.bytes().size());
  segment->Leave();
  EXPECT_EQ(segment->OpenForGrant(Access::kReadOnly).status().code(), StatusCode::kFailedPrecondition);
  segment.reset();
  for (const std::byte byte : view.bytes()) ASSERT_EQ(byte, std::byte{0xAB});
}

TEST_P(SegmentSources, DroppingTheLastReferenceRetires) {
  if (!Shares()) GTEST_SKIP() << "heap memory has no descriptor to look at";
  std::shared_ptr<Segment> segment = Claim(kMiB);
  ASSERT_NE(segment, nullptr);
  const StatusOr<Fd> fd = segment->OpenForGrant(Access::kReadOnly);
  ASSERT_TRUE(fd.ok());
  segment.reset();
  struct stat info {};
  ASSERT_EQ(fstat(fd->get(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

TEST_P(SegmentSources, SegmentsMayOutliveTheirSource) {
  std::shared_ptr<Segment> segment = Claim(kMiB);
  ASSERT_NE(segment, nullptr);
  const std::string place = source_->info().place;
  source_.reset();
  const View view(*segment);
  std::memset(view.bytes().data(), 1, view.bytes().size());
  segment.reset();
  if (!place.empty()) {
    EXPECT_NE(access(place.c_str(), F_OK), 0);
  }
}

TEST_P(SegmentSources, ACancelledClaimLeavesNothing) {
  int asked = 0;
  const auto cancel_second = [&asked] { return ++asked > 1; };
  const int64_t free_before = source_->Space().free_bytes;
  // Two steps' worth, where a step is 256 MiB.
  const int64_t size = GetParam() == SourceKind::kHeap ? kMiB : 257 * kMiB;
  if (GetParam() == SourceKind::kHeap) asked = 1;
  const Status status = source_->Claim({kEpoch, 1}, size, cancel_second).status();
  if (status.code() == StatusCode::kResourceExhausted) GTEST_SKIP() << Message(status);
  EXPECT_EQ(status.code(), StatusCode::kCancelled);
  if (GetParam() != SourceKind::kShm) {
    EXPECT_EQ(source_->Space().free_bytes, free_before);  // others use /dev/shm too
  }
  if (!source_->info().place.empty()) {
    EXPECT_EQ(source_->Sweep()->files, 0);
  }
}

TEST_P(SegmentSources, ThreadsMayClaimGrantAndRetireAtOnce) {
  std::atomic<uint64_t> serial{100};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        StatusOr<std::shared_ptr<Segment>> segment = source_->Claim({kEpoch, ++serial}, 4096, {});
        if (segment.status().code() == StatusCode::kResourceExhausted) continue;  // a small hugetlbfs pool
        ASSERT_TRUE(segment.ok()) << segment.status();
        std::thread granter([&] {
          const Status granted = (*segment)->OpenForGrant(Access::kReadOnly).status();
          EXPECT_TRUE(granted.ok() || granted.code() == StatusCode::kFailedPrecondition ||
                      granted.code() == StatusCode::kUnimplemented)
              << granted;
        });
        (*segment)->Retire();
        granter.join();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(SegmentSources, AFreshSourceHasNoProblemAndNothingToSweep) {
  EXPECT_EQ(source_->Problem(), "");
  const StatusOr<SweepResult> swept = source_->Sweep();
  ASSERT_TRUE(swept.ok());
  EXPECT_EQ(swept->files, 0);
  EXPECT_FALSE(source_->info().huge_pages.empty());
}

INSTANTIATE_TEST_SUITE_P(Sources, SegmentSources,
                         ::testing::Values(SourceKind::kShm, SourceKind::kMemfd, SourceKind::kHugetlbfs,
                                           SourceKind::kHeap),
                         [](const auto& info) { return std::string(Name(info.param)); });

// Case S6.
TEST(MemfdSources, AWriterCannotTruncateGrowOrUnseal) {
  StatusOr<std::unique_ptr<SegmentSource>> source =
      OpenSource({.kind = SourceKind::kMemfd, .instance = "test"});
  ASSERT_TRUE(source.ok());
  StatusOr<std::shared_ptr<Segment>> segment = (*source)->Claim({kEpoch, 1}, 8192, {});
  ASSERT_TRUE(segment.ok());
  const StatusOr<Fd> fd = (*segment)->OpenForGrant(Access::kReadWrite);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(ftruncate(fd->get(), 4096), -1);
  EXPECT_EQ(ftruncate(fd->get(), 16384), -1);
  EXPECT_EQ(fcntl(fd->get(), F_ADD_SEALS, F_SEAL_WRITE), -1);
  EXPECT_EQ(pwrite(fd->get(), "x", 1, 8191), 1);
}

TEST(SourceKinds, OfADaemonAllRefuseABadInstance) {
  for (const SourceKind kind : {SourceKind::kShm, SourceKind::kMemfd, SourceKind::kHugetlbfs}) {
    for (const char* instance : {"", "../x", ".x", "a b"}) {
      EXPECT_EQ(OpenSource({.kind = kind, .instance = instance}).status().code(),
                StatusCode::kInvalidArgument)
          << Name(kind) << " \"" << instance << '"';
    }
  }
}

TEST(SourceKinds, ReadBackAsTheyAreWritten) {
  for (const SourceKind kind : {SourceKind::kShm, SourceKind::kMemfd, SourceKind::kHugetlbfs}) {
    EXPECT_EQ(*ParseSourceKind(Name(kind)), kind);
  }
  EXPECT_EQ(ParseSourceKind("heap").status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ParseSourceKind("disk").status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tensorbroker
