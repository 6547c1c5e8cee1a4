// What only the sources with a directory promise: who may be in it, what is swept, what happens when it is full or gone.
#include "tensorbroker/storage/file_source.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "tensorbroker/base/log.h"
#include "tensorbroker/ipc/mapping.h"
#include "tests/ipc/scratch.h"
#include "tests/storage/mount.h"

namespace tensorbroker {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::InChild;
using ::testing::Not;
using testing::ScratchDirectory;
using testing::ScratchMount;

constexpr int64_t kMiB = int64_t{1} << 20;

std::string Text(const Status& status) { return std::string(Message(status)); }

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 07777;
}

// ShmemPmdMapped of this process's mappings of the file `name`.
int64_t HugeMappedKib(const std::string& name) {
  std::ifstream smaps("/proc/self/smaps");
  bool ours = false;
  int64_t kib = 0;
  for (std::string line; std::getline(smaps, line);) {
    if (line.find('-') < line.find(' ')) ours = line.find(name) != std::string::npos;
    if (ours && line.starts_with("ShmemPmdMapped:")) kib += std::stoll(line.substr(15));
  }
  return kib;
}

// A directory on the machine's tmpfs, so that tests need no right to mount.
class FileSources : public ::testing::Test {
 protected:
  std::unique_ptr<SegmentSource> Open(const std::string& instance = "a") {
    return OpenIn(parent_.path(), instance);
  }

  static std::unique_ptr<SegmentSource> OpenIn(const std::string& directory,
                                               const std::string& instance = "a") {
    StatusOr<std::unique_ptr<SegmentSource>> source =
        OpenSource({.instance = instance, .directory = directory});
    EXPECT_TRUE(source.ok()) << source.status();
    return source.ok() ? *std::move(source) : nullptr;
  }

  const ScratchDirectory parent_{"/dev/shm"};
};

// Case S2.
TEST_F(FileSources, FilesAndDirectoryArePrivateWhateverTheUmask) {
  for (const mode_t mask : {000, 0777}) {
    const mode_t before = umask(mask);
    const std::unique_ptr<SegmentSource> source = Open();
    ASSERT_NE(source, nullptr);
    const auto segment = source->Claim({7, 1}, 4096, {});
    umask(before);
    ASSERT_TRUE(segment.ok()) << segment.status();
    const std::string place = source->info().place;
    EXPECT_EQ(place, parent_ / ("tensorbroker-" + std::to_string(geteuid()) + "-a"));
    EXPECT_EQ(ModeOf(place), 0700u);
    EXPECT_EQ(ModeOf(place + "/" + ToString(SegmentId{7, 1})), 0600u);
    EXPECT_EQ(ModeOf(place + "/lock"), 0600u);
  }
}

TEST_F(FileSources, NothingIsLeftAfterACleanEnd) {
  {
    const std::unique_ptr<SegmentSource> source = Open();
    const auto a = source->Claim({7, 1}, 4096, {});
    const auto b = source->Claim({7, 2}, kMiB, {});
    ASSERT_TRUE(a.ok() && b.ok());
    EXPECT_EQ(source->Claim({7, 1}, 4096, {}).status().code(), StatusCode::kAlreadyExists);
    EXPECT_TRUE(fs::exists(source->info().place + "/" + ToString(SegmentId{7, 1})))
        << "refusing must not remove it";
  }
  EXPECT_TRUE(fs::is_empty(parent_.path()));
}

// What is short is named first: the tmpfs has room.
TEST_F(FileSources, ABrokerOutOfDescriptorsDoesNotBlameTheMemory) {
  const std::unique_ptr<SegmentSource> source = Open();
  ASSERT_NE(source, nullptr);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none{3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const Status status = source->Claim({7, 1}, 4096, {}).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(status), HasSubstr("Too many open files"));
  EXPECT_THAT(Text(status), HasSubstr("ulimit -n"));
  EXPECT_THAT(Text(status), Not(HasSubstr("tmpfs")));
}

// Case F8.
TEST_F(FileSources, OneBrokerAnInstance) {
  const std::unique_ptr<SegmentSource> first = Open("a");
  const Status second = OpenSource({.instance = "a", .directory = parent_.path()}).status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(second), HasSubstr("already running, pid " + std::to_string(getpid())));
  EXPECT_NE(Open("b"), nullptr);
}

// Case L3.
TEST_F(FileSources, TheNextBrokerSweepsItsOwnInstancesFilesOnly) {
  const std::unique_ptr<SegmentSource> other = Open("other");
  const auto others = other->Claim({9, 1}, kMiB, {});
  ASSERT_TRUE(others.ok());
  ASSERT_EQ(InChild([this] {
              const std::unique_ptr<SegmentSource> source = Open();
              for (uint64_t i = 1; i <= 3; ++i) {
                if (!source->Claim({7, i}, 2 * kMiB, {}).ok()) return 1;
                // Each was retired at once: the last is what a kill finds.
                const auto kept = source->Claim({7, 10 + i}, 2 * kMiB, {});
                if (!kept.ok()) return 1;
                new std::shared_ptr<Segment>(*kept);
              }
              return raise(SIGKILL);
            }),
            128 + SIGKILL);
  const std::string place = parent_ / ("tensorbroker-" + std::to_string(geteuid()) + "-a");
  const std::string foreign[] = {"notes.txt", "00000000000000ab-1x", "00000000000000AB-1", "ab-1",
                                 "00000000000000ab-01"};
  for (const std::string& name : foreign) {
    const Fd file(open((place + "/" + name).c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    ASSERT_TRUE(file.valid());
  }
  ASSERT_EQ(symlink("notes.txt", (place + "/00000000000000ab-2").c_str()), 0);
  const std::unique_ptr<SegmentSource> source = Open();
  ASSERT_NE(source, nullptr) << "the dead broker's lock is free";
  const StatusOr<SweepResult> swept = source->Sweep();
  ASSERT_TRUE(swept.ok());
  EXPECT_EQ(swept->files, 3);
  EXPECT_EQ(swept->bytes, 6 * kMiB);
  for (const std::string& name : foreign) EXPECT_TRUE(fs::exists(place + "/" + name)) << name;
  EXPECT_TRUE(fs::is_symlink(place + "/00000000000000ab-2"));
  EXPECT_TRUE((*others)->OpenForGrant(Access::kReadWrite).ok());
}

TEST_F(FileSources, AnyBrokerSweepsWhatDeadEmbeddedOnesLeft) {
  const std::string base = parent_ / ("tensorbroker-" + std::to_string(geteuid()) + "-");
  for (const std::string instance : {"embedded-dead", "named"}) {
    ASSERT_EQ(InChild([&] {
                const std::unique_ptr<SegmentSource> source = Open(instance);
                const auto kept = source->Claim({7, 1}, kMiB, {});
                if (!kept.ok()) return 1;
                new std::shared_ptr<Segment>(*kept);
                return raise(SIGKILL);
              }),
              128 + SIGKILL);
  }
  const std::unique_ptr<SegmentSource> alive = Open("embedded-alive");
  const auto segment = alive->Claim({9, 1}, kMiB, {});
  ASSERT_TRUE(segment.ok());
  // One that is about to take its lock.
  fs::create_directory(base + "embedded-starts");
  std::ofstream(base + "embedded-starts/lock").flush();
  const std::unique_ptr<SegmentSource> source = Open();
  const StatusOr<SweepResult> swept = source->Sweep();
  ASSERT_TRUE(swept.ok());
  EXPECT_EQ(swept->files, 0) << "of its own";
  EXPECT_FALSE(fs::exists(base + "embedded-dead"));
  EXPECT_TRUE(fs::exists(base + "named/" + ToString(SegmentId{7, 1}))) << "its next broker sweeps it";
  EXPECT_TRUE(fs::exists(base + "embedded-starts/lock"));
  EXPECT_TRUE((*segment)->OpenForGrant(Access::kReadWrite).ok());
}

// Case F7: what a client has mapped stays readable.
TEST_F(FileSources, SweepingTakesNoBytesFromWhoeverMapsThem) {
  const std::string place = parent_ / ("tensorbroker-" + std::to_string(geteuid()) + "-a");
  ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
  const Fd left(open((place + "/" + ToString(SegmentId{7, 1})).c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600));
  ASSERT_EQ(pwrite(left.get(), "pattern", 8, 0), 8);
  const StatusOr<Mapping> client = Mapping::Map(left, 0, 8, Access::kReadOnly);
  ASSERT_TRUE(client.ok());
  const std::unique_ptr<SegmentSource> source = Open();
  EXPECT_EQ(source->Sweep()->files, 1);
  EXPECT_STREQ(static_cast<const char*>(client->data()), "pattern");
}

// Case S5.
TEST_F(FileSources, ADirectoryThatSomeoneElsePreparedIsRefused) {
  const std::string place = parent_ / ("tensorbroker-" + std::to_string(geteuid()) + "-a");
  ASSERT_EQ(mkdir((parent_ / "elsewhere").c_str(), 0700), 0);
  ASSERT_EQ(symlink((parent_ / "elsewhere").c_str(), place.c_str()), 0);
  const SourceOptions options{.instance = "a", .directory = parent_.path()};
  EXPECT_EQ(OpenSource(options).status().code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(unlink(place.c_str()), 0);
  if (geteuid() != 0) GTEST_SKIP() << "the rest needs root, to give a directory away";
  ASSERT_EQ(mkdir(place.c_str(), 0700), 0);
  ASSERT_EQ(chown(place.c_str(), 4242, 4242), 0);
  const Status status = OpenSource(options).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(status), HasSubstr("uid 4242"));
}

TEST_F(FileSources, InstancesThatAreNoNamesAreInvalid) {
  for (const char* instance : {"", ".", "..", "../x", "a/b", "a b", "\x1b[31m"}) {
    EXPECT_EQ(OpenSource({.instance = instance, .directory = parent_.path()}).status().code(),
              StatusCode::kInvalidArgument)
        << instance;
  }
  EXPECT_EQ(OpenSource({.instance = std::string(65, 'a'), .directory = parent_.path()}).status().code(),
            StatusCode::kInvalidArgument);
}

// Case C7: never silently to disk.
TEST_F(FileSources, ADirectoryThatIsNoTmpfsIsRefused) {
  const Status status = OpenSource({.instance = "a", .directory = "/proc"}).status();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("no tmpfs"));
  EXPECT_EQ(OpenSource({.instance = "a", .directory = "/no/such"}).status().code(), StatusCode::kNotFound);
}

TEST_F(FileSources, AFileThatWasRemovedBehindOurBackIsDataLossWithTheRemedy) {
  const std::unique_ptr<SegmentSource> source = Open();
  const auto segment = source->Claim({7, 1}, 4096, {});
  ASSERT_TRUE(segment.ok());
  ASSERT_TRUE(fs::remove(source->info().place + "/" + ToString(SegmentId{7, 1})));
  const Status status = (*segment)->OpenForGrant(Access::kReadOnly).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_THAT(Text(status), HasSubstr("RemoveIPC"));
  EXPECT_THAT(Text(status), HasSubstr("enable-linger"));
}

TEST_F(FileSources, ADirectoryThatWasRemovedIsMadeAnewAndTold) {
  SetLogLevel(LogLevel::kError);
  const std::unique_ptr<SegmentSource> source = Open();
  const auto lost = source->Claim({7, 1}, 4096, {});
  ASSERT_TRUE(lost.ok());
  EXPECT_EQ(source->Problem(), "");
  fs::remove_all(source->info().place);
  EXPECT_THAT(source->Problem(), HasSubstr("RemoveIPC"));
  const auto segment = source->Claim({7, 2}, 4096, {});
  SetLogLevel(LogLevel::kWarning);
  ASSERT_TRUE(segment.ok()) << segment.status();
  EXPECT_TRUE((*segment)->OpenForGrant(Access::kReadWrite).ok());
  EXPECT_THAT(source->Problem(), HasSubstr("RemoveIPC"));
  (*lost)->Retire();
  EXPECT_TRUE((*segment)->OpenForGrant(Access::kReadWrite).ok());
}

// Cases F1, C7.
TEST_F(FileSources, AFullTmpfsRefusesAndKeepsNothing) {
  const ScratchMount tmpfs("size=64m");
  if (!tmpfs.ok()) GTEST_SKIP() << "needs root, to mount a small tmpfs";
  const std::unique_ptr<SegmentSource> source = OpenIn(tmpfs.path());
  ASSERT_NE(source, nullptr);
  const auto large = source->Claim({7, 1}, 48 * kMiB, {});
  ASSERT_TRUE(large.ok()) << large.status();
  const FilesystemSpace before = source->Space();
  EXPECT_EQ(before.total_bytes, 64 * kMiB);
  const Status refused = source->Claim({7, 2}, 32 * kMiB, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(refused), HasSubstr(std::to_string(32 * kMiB)));
  EXPECT_THAT(Text(refused), HasSubstr(std::to_string(before.free_bytes)));
  EXPECT_THAT(Text(refused), HasSubstr("--shm-size"));
  EXPECT_THAT(Text(refused), HasSubstr("--memory=memfd"));
  EXPECT_THAT(Text(refused), Not(HasSubstr(tmpfs.path()))) << "a reply names no path";
  EXPECT_EQ(source->Space().free_bytes, before.free_bytes);
  EXPECT_EQ(source->Space().free_inodes, before.free_inodes);
  const StatusOr<Fd> fd = (*large)->OpenForGrant(Access::kReadWrite);
  const StatusOr<Mapping> mapping = Mapping::Map(*fd, 0, 48 * kMiB, Access::kReadWrite);
  ASSERT_TRUE(mapping.ok());
  std::memset(mapping->data(), 1, static_cast<size_t>(48 * kMiB));
}

// Case F2.
TEST_F(FileSources, WhatIsReservedIsWritableThoughAnotherProgramFillsTheRest) {
  const ScratchMount tmpfs("size=64m");
  if (!tmpfs.ok()) GTEST_SKIP() << "needs root, to mount a small tmpfs";
  const std::unique_ptr<SegmentSource> source = OpenIn(tmpfs.path());
  ASSERT_NE(source, nullptr);
  const auto segment = source->Claim({7, 1}, 32 * kMiB, {});
  ASSERT_TRUE(segment.ok());
  const Fd other(open((tmpfs / "other").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
  const std::string block(static_cast<size_t>(kMiB), 'x');
  while (write(other.get(), block.data(), block.size()) > 0) {
  }
  EXPECT_EQ(source->Space().free_bytes, 0);
  const StatusOr<Fd> fd = (*segment)->OpenForGrant(Access::kReadWrite);
  const StatusOr<Mapping> mapping = Mapping::Map(*fd, 0, 32 * kMiB, Access::kReadWrite);
  ASSERT_TRUE(mapping.ok());
  std::memset(mapping->data(), 1, static_cast<size_t>(32 * kMiB));
  EXPECT_EQ(source->Claim({7, 2}, 4096, {}).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(source->Sweep()->files, 1) << "the refused one left no file";
}

TEST_F(FileSources, ATmpfsWithoutInodesSaysSo) {
  const ScratchMount tmpfs("size=64m,nr_inodes=6");
  if (!tmpfs.ok()) GTEST_SKIP() << "needs root, to mount a small tmpfs";
  const std::unique_ptr<SegmentSource> source = OpenIn(tmpfs.path());
  ASSERT_NE(source, nullptr);
  std::vector<std::shared_ptr<Segment>> kept;
  Status last = OkStatus();
  for (uint64_t i = 1; i < 10 && last.ok(); ++i) {
    auto segment = source->Claim({7, i}, 4096, {});
    last = segment.status();
    if (segment.ok()) kept.push_back(*segment);
  }
  EXPECT_EQ(last.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(Text(last), HasSubstr("nr_inodes"));
}

TEST_F(FileSources, HugePagesAreUsedWhereTheMountHasThem) {
  const ScratchMount tmpfs("size=128m,huge=advise");
  if (!tmpfs.ok()) GTEST_SKIP() << "needs root and transparent huge pages, to mount a tmpfs with huge=advise";
  const std::unique_ptr<SegmentSource> source = OpenIn(tmpfs.path());
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(source->info().huge_pages, "on (mount option huge= is advise)");
  const auto large = source->Claim({7, 1}, 33 * kMiB + 4096, {});
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_EQ((*large)->info().size_bytes, 33 * kMiB + 4096);
  // The kernel's word for it, where the mapping is looked at.
  const StatusOr<Fd> fd = (*large)->OpenForGrant(Access::kReadWrite);
  const StatusOr<Mapping> mapping = Mapping::Map(*fd, 0, 32 * kMiB, Access::kReadWrite);
  ASSERT_TRUE(mapping.ok());
  for (int64_t at = 0; at < 32 * kMiB; at += 4096) static_cast<char*>(mapping->data())[at] = 1;
  EXPECT_EQ((*large)->info().huge_pages, HugeMappedKib(ToString(SegmentId{7, 1})) == 32 * 1024)
      << HugeMappedKib(ToString(SegmentId{7, 1}));
  EXPECT_EQ(source->Space().free_bytes, 128 * kMiB - (33 * kMiB + 4096) - 4096) << "the lock file has a page";
  // A full one refuses without SIGBUS.
  const Status refused = source->Claim({7, 2}, 100 * kMiB, {}).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(source->Sweep()->files, 1);
}

TEST_F(FileSources, SayThatAPlainTmpfsHasNoHugePages) {
  const ScratchMount tmpfs("size=1m");
  if (!tmpfs.ok()) GTEST_SKIP() << "needs root, to mount a tmpfs";
  EXPECT_EQ(OpenIn(tmpfs.path())->info().huge_pages, "none (mount option huge= is never)");
}

}  // namespace
}  // namespace tensorbroker
