#include "tensorbroker/storage/allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tensorbroker/storage/heap_source.h"
#include "tensorbroker/storage/storage.h"

namespace tensorbroker {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr int64_t kMiB = int64_t{1} << 20;

class Allocators : public ::testing::Test {
 protected:
  StatusOr<Block> Allocate(int64_t size_bytes) { return allocator_.Allocate({.size_bytes = size_bytes}); }

  HeapSource source_{2 * kMiB};
  Budget budget_{kMiB};
  std::vector<uint64_t> retired_;
  SegmentPerStorage allocator_{0xE, &source_, &budget_, nullptr,
                               [this](SegmentId id) { retired_.push_back(id.serial); }};
};

TEST_F(Allocators, EachBlockHasASegmentOfItsOwn) {
  const StatusOr<Block> a = Allocate(8);
  const StatusOr<Block> b = Allocate(8);
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->size_bytes(), 8);
  EXPECT_EQ(a->offset_bytes() % kHostAlignmentBytes, 0);
  EXPECT_EQ(a->segment()->info().id, (SegmentId{0xE, 1}));
  EXPECT_EQ(b->segment()->info().id, (SegmentId{0xE, 2}));
  EXPECT_EQ(allocator_.reserved_bytes(), 2 * source_.info().page_bytes);
}

TEST_F(Allocators, DroppingABlockGivesItBackOnce) {
  {
    StatusOr<Block> a = Allocate(5000);
    ASSERT_TRUE(a.ok());
    Block moved = *std::move(a);
    Block assigned;
    assigned = std::move(moved);
    EXPECT_EQ(moved.segment(), nullptr);
    EXPECT_GT(allocator_.reserved_bytes(), 0);
    EXPECT_THAT(retired_, IsEmpty());
  }
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
  EXPECT_THAT(retired_, ElementsAre(1));
  EXPECT_EQ(source_.Space().free_bytes, 2 * kMiB);
}

TEST_F(Allocators, TheMemoryGoesThoughSomeoneStillKnowsTheSegment) {
  StatusOr<Block> a = Allocate(8);
  ASSERT_TRUE(a.ok());
  const std::shared_ptr<Segment> known = a->segment();
  *a = Block();
  EXPECT_EQ(known->OpenForGrant(Access::kReadOnly).status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
}

// Case C5.
TEST_F(Allocators, NoBytesTakeNoSegment) {
  const StatusOr<Block> a = Allocate(0);
  ASSERT_TRUE(a.ok());
  EXPECT_EQ(a->segment(), nullptr);
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
}

// Case C4.
TEST_F(Allocators, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(Allocate(-1).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Allocate(int64_t{1} << 60).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(Allocate(INT64_MAX).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
}

TEST_F(Allocators, ARefusalChargesNothing) {
  EXPECT_EQ(Allocate(kMiB + 1).status().code(), StatusCode::kResourceExhausted);  // the budget's
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
  Budget wide(1000 * kMiB);
  SegmentPerStorage allocator(0xF, &source_, &wide, nullptr, {});
  EXPECT_EQ(allocator.Allocate({.size_bytes = 3 * kMiB}).status().code(),
            StatusCode::kResourceExhausted);  // the source's
  EXPECT_EQ(wide.used_bytes(), 0);
  EXPECT_EQ(allocator.Allocate({.size_bytes = 1, .cancelled = [] { return true; }}).status().code(),
            StatusCode::kCancelled);
  EXPECT_EQ(wide.used_bytes(), 0);
}

TEST_F(Allocators, ThreadsAllocateAndFreeAtOnce) {
  Budget budget(kMiB);
  SegmentPerStorage allocator(1, &source_, &budget, nullptr, {});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        const StatusOr<Block> block = allocator.Allocate({.size_bytes = 1 + i * 100});
        EXPECT_TRUE(block.ok()) << block.status();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0);
}

TEST_F(Allocators, AStorageGivesItsBytesBackWhenItEnds) {
  {
    Storage storage;
    storage.size_bytes = 100;
    StatusOr<Block> block = Allocate(100);
    ASSERT_TRUE(block.ok());
    storage.block = *std::move(block);
    EXPECT_EQ(storage.reserved_bytes(), source_.info().page_bytes);
    const Storage moved = std::move(storage);
    EXPECT_EQ(moved.reserved_bytes(), source_.info().page_bytes);
  }
  EXPECT_EQ(allocator_.reserved_bytes(), 0);
  EXPECT_EQ(Storage().reserved_bytes(), 0);
}

}  // namespace
}  // namespace tensorbroker
