#include "tensorbroker/storage/capacity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using testing::ScratchDirectory;

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kGiB = int64_t{1} << 30;

class FakeSource : public SegmentSource {
 public:
  FakeSource(SourceKind kind, FilesystemSpace space) : space_(space) { info_.kind = kind; }
  const SourceInfo& info() const override { return info_; }
  StatusOr<std::shared_ptr<Segment>> Claim(SegmentId, int64_t, const CancelFn&) override {
    return UnimplementedError("a fake");
  }
  FilesystemSpace Space() const override { return space_; }
  std::string Problem() const override { return ""; }
  StatusOr<SweepResult> Sweep() override { return SweepResult{}; }

 private:
  SourceInfo info_;
  FilesystemSpace space_;
};

class FakeClock : public Clock {
 public:
  TimePoint Now() const override { return now; }
  int64_t UnixNanos() const override { return 0; }
  TimePoint now{std::chrono::hours(1)};
};

FilesystemSpace Space(int64_t total_bytes, int64_t free_bytes) {
  FilesystemSpace space;
  space.total_bytes = total_bytes;
  space.free_bytes = free_bytes;
  return space;
}

// A machine by its files.
class Machine {
 public:
  void MemAvailable(int64_t bytes) {
    root_.Write("proc/meminfo", "MemAvailable: " + std::to_string(bytes / 1024) + " kB\n");
  }
  void Cgroup(int64_t limit_bytes, int64_t used_bytes) {
    root_.Write("proc/self/cgroup", "0::/unit\n");
    root_.Write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    root_.Write("sys/fs/cgroup/unit/memory.max", std::to_string(limit_bytes) + "\n");
    root_.Write("sys/fs/cgroup/unit/memory.current", std::to_string(used_bytes) + "\n");
  }
  MemoryInfoOptions options() const { return {root_.path()}; }

 private:
  ScratchDirectory root_;
};

// Case C7.
TEST(Capacities, ASmallShmBindsAndTheTextSaysHowToRaiseIt) {
  Machine machine;
  machine.MemAvailable(8 * kGiB);
  const StatusOr<Capacity> capacity =
      DefaultCapacity(FakeSource(SourceKind::kShm, Space(64 * kMiB, 60 * kMiB)), machine.options());
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->bytes, 48 * kMiB);
  EXPECT_THAT(capacity->bound_by, HasSubstr("80 % of the free bytes of the tmpfs"));
  EXPECT_THAT(capacity->bound_by, HasSubstr("64.0 MiB"));
  EXPECT_THAT(capacity->remedy, HasSubstr("--memory=memfd"));
  EXPECT_EQ(capacity->limits.size(), 2u);
}

// Case C7.
TEST(Capacities, AMemfdIsBoundByMemoryOnly) {
  Machine machine;
  machine.MemAvailable(10 * kGiB);
  const StatusOr<Capacity> capacity = DefaultCapacity(FakeSource(SourceKind::kMemfd, {}), machine.options());
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->bytes, 8 * kGiB);
  EXPECT_THAT(capacity->bound_by, HasSubstr("80 % of MemAvailable"));
}

// Case C8.
TEST(Capacities, ACgroupsLimitBindsWithRoomForTheBrokerItself) {
  Machine machine;
  machine.MemAvailable(8 * kGiB);
  machine.Cgroup(512 * kMiB, 12 * kMiB);
  const StatusOr<Capacity> capacity =
      DefaultCapacity(FakeSource(SourceKind::kShm, Space(8 * kGiB, 8 * kGiB)), machine.options());
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->bytes, 468 * kMiB);
  EXPECT_THAT(capacity->bound_by, HasSubstr("cgroup's memory limit (512 MiB"));
  EXPECT_THAT(capacity->remedy, HasSubstr("memory.max"));
}

TEST(Capacities, AFullMachineHasNone) {
  Machine machine;
  machine.MemAvailable(8 * kGiB);
  machine.Cgroup(512 * kMiB, 600 * kMiB);
  const StatusOr<Capacity> capacity = DefaultCapacity(FakeSource(SourceKind::kMemfd, {}), machine.options());
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->bytes, 0);
}

TEST(Capacities, HugePagesThatAreSetAsideAreNotMemAvailable) {
  Machine machine;
  machine.MemAvailable(100 * kMiB);
  const StatusOr<Capacity> capacity =
      DefaultCapacity(FakeSource(SourceKind::kHugetlbfs, Space(2 * kGiB, kGiB)), machine.options());
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->bytes, kGiB);
}

TEST(Capacities, WhereNothingCanBeReadTheUserMustSay) {
  const ScratchDirectory empty;
  const Status status = DefaultCapacity(FakeSource(SourceKind::kMemfd, {}), {empty.path()}).status();
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("--capacity"));
}

// Case C3.
TEST(Budgets, RefuseWithAskedAndFreeBytesAndChargeNothing) {
  Budget budget(100);
  ASSERT_TRUE(budget.Charge(60).ok());
  const Status status = budget.Charge(41);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(std::string(Message(status)), "reserve 41 bytes: 40 of the capacity's 100 bytes are free");
  EXPECT_EQ(budget.used_bytes(), 60);
  ASSERT_TRUE(budget.Charge(40).ok());
  budget.Refund(100);
  EXPECT_EQ(budget.used_bytes(), 0);
}

// Case C4.
TEST(Budgets, HugeAndNegativeSizesDoNotOverflow) {
  Budget budget(100);
  ASSERT_TRUE(budget.Charge(50).ok());
  EXPECT_EQ(budget.Charge(INT64_MAX).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(budget.Charge(-1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(budget.used_bytes(), 50);
}

TEST(Budgets, ThreadsNeverGetMoreThanThereIs) {
  Budget budget(100);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&budget] {
      for (int i = 0; i < 1000; ++i) {
        if (!budget.Charge(30).ok()) continue;
        EXPECT_LE(budget.used_bytes(), 100);
        budget.Refund(30);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0);
}

// Case C8.
TEST(Headrooms, AllOfTheDefaultCapacityCanBeHadAndNoMore) {
  Machine machine;
  FakeClock clock;
  machine.MemAvailable(8 * kGiB);
  machine.Cgroup(512 * kMiB, 12 * kMiB);
  const int64_t capacity = DefaultCapacity(FakeSource(SourceKind::kMemfd, {}), machine.options())->bytes;
  Headroom headroom(SourceKind::kMemfd, machine.options(), clock);
  int64_t used = 0;
  while (used + 4 * kMiB <= capacity) {
    ASSERT_TRUE(headroom.Admit(4 * kMiB).ok()) << used / kMiB;
    used += 4 * kMiB;
    machine.Cgroup(512 * kMiB, 12 * kMiB + used);  // the pages are charged as they are reserved
    headroom.Done(4 * kMiB);
    clock.now += milliseconds(1);
  }
  clock.now += milliseconds(100);
  const Status status = headroom.Admit(64 * kMiB);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(Message(status)), HasSubstr("the cgroup's memory limit of 512 MiB"));
  EXPECT_THAT(std::string(Message(status)), HasSubstr("memory.max"));
}

TEST(Headrooms, CountWhatIsBeingReservedAtTheSameTime) {
  Machine machine;
  FakeClock clock;
  machine.MemAvailable(kGiB);
  Headroom headroom(SourceKind::kMemfd, machine.options(), clock);
  ASSERT_TRUE(headroom.Admit(600 * kMiB).ok());
  clock.now += std::chrono::seconds(1);  // a fresh look at the machine does not forget it
  EXPECT_EQ(headroom.Admit(600 * kMiB).code(), StatusCode::kResourceExhausted);
  headroom.Done(600 * kMiB);
  clock.now += std::chrono::seconds(1);
  EXPECT_TRUE(headroom.Admit(600 * kMiB).ok());
}

TEST(Headrooms, SeeMemoryThatOthersTook) {
  Machine machine;
  FakeClock clock;
  machine.MemAvailable(kGiB);
  Headroom headroom(SourceKind::kShm, machine.options(), clock);
  ASSERT_TRUE(headroom.Admit(kMiB).ok());
  headroom.Done(kMiB);
  machine.MemAvailable(10 * kMiB);
  clock.now += milliseconds(100);
  EXPECT_EQ(headroom.Admit(20 * kMiB).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(Headroom(SourceKind::kHugetlbfs, machine.options(), clock).Admit(20 * kMiB).ok());
}

}  // namespace
}  // namespace tensorbroker
