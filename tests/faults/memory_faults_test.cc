// Memory that runs out under the broker: a small tmpfs, other programs that fill it, a small container.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <thread>

#include "tensorbroker/ipc/memory_info.h"
#include "tests/multiprocess/harness/fixture.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {
namespace {

// A broker whose Segments lie on a tmpfs of 64 MiB.
class SmallTmpfs : public MultiprocessTest {
 protected:
  void SetUp() override {
    MultiprocessTest::SetUp();
    TB_REQUIRE_ROOT();
    directory_ = MakeDirectory();
    tmpfs_ = std::make_unique<TmpfsMount>(directory_, 64 * kMiB);
    if (!tmpfs_->mounted()) GTEST_SKIP() << "a tmpfs cannot be mounted here";
  }
  void TearDown() override {
    if (daemon_.valid()) {
      DropClient();
      StopAgents();
      daemon_.Stop();
      std::filesystem::remove(directory_ + "/filler");
      EXPECT_TRUE(std::filesystem::is_empty(directory_)) << "left in the shm directory";
    }
    daemon_ = Process();
    tmpfs_.reset();
    MultiprocessTest::TearDown();
  }

  void Serve(std::vector<std::string> args) {
    UseSocket(MakeDirectory() + "/broker.sock");
    args.insert(args.end(), {"--socket", socket(), "--shm-dir", directory_, "--memory", "shm"});
    daemon_ = Process::StartDaemon(std::move(args));
    ASSERT_FALSE(daemon_.Ended()) << daemon_.Stderr();
  }

  std::string directory_;
  std::unique_ptr<TmpfsMount> tmpfs_;
  Process daemon_;
};

// Case F1, where the default capacity (80 % of what is free) binds.
TEST_F(SmallTmpfs, ACreateOverTheDefaultCapacityFailsCleanlyAndTheOthersPagesAreAllThere) {
  Serve({});
  Agent& a = StartAgent("A");
  const StatusOr<StorageId> id = a.Create("t", 48 * kMiB, 1);
  TB_ASSERT_OK(id.status());
  const int64_t used = UsedBytes();
  const int64_t free = Info().capacity_bytes - used;
  TB_EXPECT_ERROR(a.Create("u", 32 * kMiB, 2), kResourceExhausted, "32.0 MiB", fmt::format("{}", free),
                  "3.2 MiB");
  EXPECT_EQ(UsedBytes(), used);
  for (uint64_t seed = 2; seed < 4; ++seed) {
    TB_ASSERT_OK(a.Write("t", seed));
    TB_EXPECT_OK(a.Check("t", seed));
  }
}

// Case F1, where the tmpfs itself is full: --capacity promised more than there is.
TEST_F(SmallTmpfs, ACreateOverWhatTheTmpfsHasFailsCleanly) {
  Serve({"--capacity", "64MiB"});
  Agent& a = StartAgent("A");
  {
    std::ofstream other(directory_ + "/filler");
    other << std::string(4 * kMiB, 'x');
  }
  TB_ASSERT_OK(a.Create("t", 48 * kMiB, 1).status());
  const int64_t used = UsedBytes();
  const StatusOr<FilesystemSpace> before = GetFilesystemSpace(directory_);
  TB_EXPECT_ERROR(a.Create("u", 16 * kMiB, 2), kResourceExhausted, "16.0 MiB");
  EXPECT_EQ(UsedBytes(), used);
  EXPECT_EQ(GetFilesystemSpace(directory_)->free_bytes, before->free_bytes);
  TB_ASSERT_OK(a.Write("t", 2));
  TB_EXPECT_OK(a.Check("t", 2));
}

// Case F2.
TEST_F(SmallTmpfs, WhatWasCreatedCanBeWrittenWhenOthersFilledTheRest) {
  Serve({"--capacity", "60MiB"});
  Agent& a = StartAgent("A");
  TB_ASSERT_OK(a.Reserve("t", 32 * kMiB).status());
  EXPECT_GT(tmpfs_->FillUp(), 16 * kMiB);
  // Mapped and touched for the first time now: a page that were not reserved would be SIGBUS.
  TB_ASSERT_OK(a.Do({"map", "t"}));
  TB_ASSERT_OK(a.Write("t", 5));
  TB_EXPECT_OK(a.Check("t", 5));
  const int64_t used = UsedBytes();
  TB_EXPECT_ERROR(a.Create("u", 16 * kMiB, 1), kResourceExhausted, "16.0 MiB");
  EXPECT_EQ(UsedBytes(), used);
  TB_EXPECT_OK(a.Check("t", 5));
}

TB_CHILD(OpenAndReadUntilDeleted) {
  const StatusOr<Client> connected = Client::Connect({.socket = arguments.at(0)});
  if (!connected.ok()) return 1;
  Client client = *connected;
  channel.Send("ready");
  int64_t rounds = 0;
  while (const std::optional<std::string> name = channel.Receive()) {
    const StatusOr<Tensor> tensor = client.Open(*name);
    if (!tensor.ok()) return 2;
    channel.Send("open");
    // Reads on while others delete it and fill the filesystem, until the test says stop.
    std::optional<std::string> stop;
    while (!stop) {
      if (FirstWrongByte(tensor->storage().bytes(), 1) >= 0) return 3;
      ++rounds;
      stop = channel.Receive(Duration{0});
    }
    channel.Send(std::to_string(rounds));
  }
  return 0;
}

// Case F3 (deletion).
TEST_F(SmallTmpfs, AReaderGoesOnWhileItsStorageIsDeletedAndTheFilesystemFilled) {
  Serve({"--capacity", "60MiB"});
  EventLog events(client());
  const int64_t u0 = UsedBytes();
  auto reader = ChildProcess::Spawn("OpenAndReadUntilDeleted", {socket()});
  ASSERT_EQ(reader.Receive(), "ready");
  Agent& a = StartAgent("A");
  for (int i = 0; i < LongOr(50, kSanitized ? 5 : 50); ++i) {
    const std::string name = fmt::format("t/{}", i);
    const StatusOr<StorageId> id = a.Create("t", 16 * kMiB, 1);
    TB_ASSERT_OK(id.status());
    TB_ASSERT_OK(a.Publish("t", name));
    reader.Send(name);
    ASSERT_EQ(reader.Receive(), "open");
    int64_t holders = 0;
    TB_ASSERT_OK(a.Delete(*id, &holders));
    EXPECT_EQ(holders, 2);
    TB_ASSERT_OK(a.Drop("t"));
    // The budget counts the deleted Storage until the reader's release, so nothing here exceeds it.
    TB_EXPECT_ERROR(a.Create("u", 48 * kMiB, 2), kResourceExhausted);
    const int64_t filled = tmpfs_->FillUp();
    EXPECT_GT(filled, 0);
    EXPECT_LE(filled, 48 * kMiB);
    reader.Send("stop");
    ASSERT_TRUE(reader.Receive().has_value());
    std::filesystem::remove(directory_ + "/filler");
    EXPECT_TRUE(events.WaitForFreed(*id));
  }
  reader.Send("none");  // no such name: it ends with 2
  EXPECT_EQ(reader.Wait(), 2);
  EXPECT_TRUE(BooksAt(u0));
  EXPECT_GT(GetFilesystemSpace(directory_)->free_bytes, 63 * kMiB);
}

// Case C7.
class SmallDevShm : public MultiprocessTest {};

TEST_F(SmallDevShm, ABrokerOn64MiBSaysSoAndHowToRaiseItAndNeverUsesTheDisk) {
  TB_REQUIRE_ROOT();
  const std::string socket_directory = MakeDirectory();
  UseSocket(socket_directory + "/broker.sock");
  Process daemon =
      Process::StartDaemon({"--socket", socket(), "--memory", "shm"}, {.dev_shm_bytes = 64 * kMiB});
  ASSERT_FALSE(daemon.Ended()) << daemon.Stderr();
  const std::string start = daemon.Stderr();
  EXPECT_NE(start.find("capacity"), std::string::npos) << start;
  EXPECT_NE(start.find("--memory=memfd"), std::string::npos) << start;
  EXPECT_NE(start.find("/dev/shm"), std::string::npos) << start;
  Agent& a = StartAgent("A");
  TB_EXPECT_ERROR(a.Create("t", 65 * kMiB, 1), kResourceExhausted, "65.0 MiB", "memfd");
  EXPECT_EQ(UsedBytes(), 0);
  TB_EXPECT_OK(a.Create("t", 32 * kMiB, 1).status());
  TB_EXPECT_OK(a.Check("t", 1));
  DropClient();
  StopAgents();
  daemon.Stop();
}

TEST_F(SmallDevShm, WithMemfdTheSameCreateWorks) {
  TB_REQUIRE_ROOT();
  UseSocket(MakeDirectory() + "/broker.sock");
  Process daemon =
      Process::StartDaemon({"--socket", socket(), "--memory", "memfd"}, {.dev_shm_bytes = 64 * kMiB});
  ASSERT_FALSE(daemon.Ended()) << daemon.Stderr();
  Agent& a = StartAgent("A");
  TB_EXPECT_OK(a.Create("t", 65 * kMiB, 1).status());
  TB_EXPECT_OK(a.Check("t", 1));
  DropClient();
  StopAgents();
  daemon.Stop();
}

// A memory cgroup of 512 MiB below this process's own, v1 or v2; removed at its end.
class MemoryCgroup {
 public:
  explicit MemoryCgroup(int64_t bytes) {
    for (const auto& [controllers, limit] :
         {std::pair{":memory:", "memory.limit_in_bytes"}, std::pair{"0::", "memory.max"}}) {
      std::ifstream file("/proc/self/cgroup");
      for (std::string line; std::getline(file, line);) {
        const size_t at = line.find(controllers);
        if (at == std::string::npos) continue;
        const std::string own = line.substr(at + std::string_view(controllers).size());
        for (const std::string mount : {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}) {
          for (const std::string& parent : {mount + own, mount}) {
            if (Make(parent + fmt::format("/tb-test-{}", getpid()), limit, bytes)) return;
          }
        }
      }
    }
  }
  ~MemoryCgroup() {
    if (!directory_.empty()) {
      // Busy until the kernel has taken its last process out.
      EXPECT_TRUE(Eventually(kHang, [&] { return rmdir(directory_.c_str()) == 0; })) << directory_;
    }
  }
  const std::string& directory() const { return directory_; }
  // How often the kernel's OOM killer came.
  int64_t OomKills() const {
    for (const char* name : {"/memory.oom_control", "/memory.events"}) {
      std::ifstream file(directory_ + name);
      std::string key;
      int64_t value = 0;
      while (file >> key >> value) {
        if (key == "oom_kill") return value;
      }
    }
    return -1;
  }

 private:
  bool Make(const std::string& directory, const std::string& limit, int64_t bytes) {
    if (mkdir(directory.c_str(), 0755) != 0) return false;
    std::ofstream(directory + "/" + limit) << bytes;
    std::ifstream back(directory + "/" + limit);
    int64_t set = 0;
    if (back >> set && set == bytes) {
      directory_ = directory;
      return true;
    }
    rmdir(directory.c_str());
    return false;
  }
  std::string directory_;
};

// Case C8.
TEST_F(SmallDevShm, ACgroupsLimitBindsTheDefaultCapacityAndNothingIsOomKilled) {
  TB_REQUIRE_ROOT();
  const MemoryCgroup cgroup(512 * kMiB);
  if (cgroup.directory().empty()) GTEST_SKIP() << "no memory cgroup can be made here";
  for (const char* memory : {"shm", "memfd"}) {
    SCOPED_TRACE(memory);
    const std::string shm = MakeDirectory("/dev/shm");
    UseSocket(MakeDirectory() + "/broker.sock");
    Process daemon = Process::StartDaemon({"--socket", socket(), "--shm-dir", shm, "--memory", memory},
                                          {.cgroup = cgroup.directory()});
    ASSERT_FALSE(daemon.Ended()) << daemon.Stderr();
    const BrokerInfo info = Info();
    EXPECT_LE(info.capacity_bytes, 512 * kMiB);
    EXPECT_GE(info.capacity_bytes, 128 * kMiB);
    EXPECT_NE(info.capacity_bound_by.find("cgroup"), std::string::npos) << info.capacity_bound_by;
    EXPECT_NE(daemon.Stderr().find("cgroup"), std::string::npos) << daemon.Stderr();
    // Up to the printed limit, in pieces; no byte is promised that is not there.
    std::vector<Storage> storages;
    Status refused;
    int64_t sum = 0;
    for (;;) {
      StatusOr<Storage> storage = client().CreateStorage(32 * kMiB, {.map = false});
      if (!storage.ok()) {
        refused = storage.status();
        break;
      }
      sum += 32 * kMiB;
      storages.push_back(*std::move(storage));
      ASSERT_LE(sum, 512 * kMiB);
    }
    TB_EXPECT_ERROR(refused, kResourceExhausted, "32.0 MiB");
    // A sanitizer's own memory is charged to the cgroup too.
    EXPECT_GT(sum, info.capacity_bytes - (kSanitized ? 192 : 64) * kMiB)
        << "refused long before the printed limit: " << refused;
    EXPECT_FALSE(daemon.Ended());
    EXPECT_EQ(cgroup.OomKills(), 0);
    storages.clear();
    DropClient();
    daemon.Stop();
  }
}

// Case C9.
TEST_F(SmallDevShm, AnotherClientsOpenCompletesWhileALargeCreateRuns) {
  const StatusOr<int64_t> available = GetMemAvailable();
  TB_ASSERT_OK(available.status());
  const int64_t size = std::min<int64_t>(LongOr(8192, 2048) * kMiB, *available / 4 / kMiB * kMiB);
  if (size < 512 * kMiB) GTEST_SKIP() << "only " << *available << " bytes of memory are available";
  StartBroker();
  if (Info().capacity_bytes < size) GTEST_SKIP() << "the capacity is " << Info().capacity_bytes << " bytes";
  Agent& a = StartAgent("A");
  Agent& b = StartAgent("B");
  TB_ASSERT_OK(b.Create("t", 4096, 1).status());
  TB_ASSERT_OK(b.Publish("t", "x"));
  TB_ASSERT_OK(client().Open("x").status());

  a.Begin({"reserve", "large", std::to_string(size)});
  // It is under way once the broker counts its bytes.
  ASSERT_TRUE(BooksAt(size + 4096));
  int during = 0;
  Duration longest{0};
  std::atomic<bool> done{false};
  std::thread waiter([&] {
    TB_EXPECT_OK(a.End(nullptr, 6 * kHang));
    done = true;
  });
  while (!done) {
    const TimePoint start = Clock::Real().Now();
    TB_EXPECT_OK(client().Open("x", {.map = false}).status());
    if (!done) {
      ++during;
      longest = std::max<Duration>(longest, Clock::Real().Now() - start);
    }
  }
  waiter.join();
  EXPECT_GE(during, 3);
  EXPECT_LE(longest, 100ms * kSlack);
}

}  // namespace
}  // namespace tensorbroker::testing
