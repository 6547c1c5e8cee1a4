#include "tensorbroker/ipc/directory.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;
using testing::InChild;
using testing::ScratchDirectory;

std::string Text(const Status& status) { return std::string(Message(status)); }

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

// Case S2.
TEST(Directories, AreMadeWithTheirModeWhateverTheUmask) {
  const ScratchDirectory scratch;
  for (const mode_t mask : {000, 022, 0777}) {
    const std::string path = scratch / std::to_string(mask);
    const mode_t before = umask(mask);
    const StatusOr<Fd> fd = OpenPrivateDirectory(path, 0750, Create::kYes);
    umask(before);
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(ModeOf(path), 0750u);
    EXPECT_EQ(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  }
}

TEST(Directories, OfOursThatAreTooWideAreNarrowed) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "d";
  ASSERT_EQ(mkdir(path.c_str(), 0777), 0);
  ASSERT_EQ(chmod(path.c_str(), 0777), 0);
  ASSERT_TRUE(OpenPrivateDirectory(path, 0700, Create::kNo).ok());
  EXPECT_EQ(ModeOf(path), 0700u);
}

TEST(Directories, AMissingOneIsNotFound) {
  const ScratchDirectory scratch;
  EXPECT_EQ(OpenPrivateDirectory(scratch / "none", 0700, Create::kNo).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(OpenPrivateDirectory(scratch / "none/d", 0700, Create::kYes).status().code(),
            StatusCode::kNotFound);
}

// Case S5.
TEST(Directories, ALinkInTheirPlaceIsRefused) {
  const ScratchDirectory scratch;
  ASSERT_EQ(mkdir((scratch / "real").c_str(), 0700), 0);
  ASSERT_EQ(symlink((scratch / "real").c_str(), (scratch / "link").c_str()), 0);
  const Status status = OpenPrivateDirectory(scratch / "link", 0700, Create::kYes).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(status), HasSubstr("symbolic link"));
}

// Case S5.
TEST(Directories, OfAnotherUidAreRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to give a directory away";
  const ScratchDirectory scratch;
  const std::string path = scratch / "d";
  ASSERT_EQ(mkdir(path.c_str(), 0700), 0);
  ASSERT_EQ(chown(path.c_str(), 4242, 4242), 0);
  const Status status = OpenPrivateDirectory(path, 0700, Create::kYes).status();
  EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(Text(status), HasSubstr("uid 4242"));
}

TEST(Directories, AFileInTheirPlaceIsRefused) {
  const ScratchDirectory scratch;
  scratch.Write("d", "");
  EXPECT_EQ(OpenPrivateDirectory(scratch / "d", 0700, Create::kYes).status().code(),
            StatusCode::kFailedPrecondition);
}

// Case F8.
TEST(LockFiles, ASecondHolderIsToldTheFirstsPid) {
  const ScratchDirectory scratch;
  const StatusOr<Fd> directory = OpenPrivateDirectory(scratch.path(), 0700, Create::kNo);
  ASSERT_TRUE(directory.ok());
  const StatusOr<LockFile> first = LockFile::Acquire(*directory, "lock");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ModeOf(scratch / "lock"), 0600u);
  const Status second = LockFile::Acquire(*directory, "lock").status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(Text(second), "already running, pid " + std::to_string(getpid()));
}

TEST(LockFiles, AreFreeOnceTheirHolderIsKilled) {
  const ScratchDirectory scratch;
  const StatusOr<Fd> directory = OpenPrivateDirectory(scratch.path(), 0700, Create::kNo);
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(InChild([&directory] {
              const StatusOr<LockFile> lock = LockFile::Acquire(*directory, "lock");
              if (lock.ok()) raise(SIGKILL);
              return 1;
            }),
            128 + SIGKILL);
  EXPECT_TRUE(std::filesystem::exists(scratch / "lock"));
  EXPECT_TRUE(LockFile::Acquire(*directory, "lock").ok());
}

TEST(LockFiles, ARemovedOneGuardsNothing) {
  const ScratchDirectory scratch;
  const StatusOr<Fd> directory = OpenPrivateDirectory(scratch.path(), 0700, Create::kNo);
  ASSERT_TRUE(directory.ok());
  const StatusOr<LockFile> first = LockFile::Acquire(*directory, "lock");
  ASSERT_TRUE(first.ok());
  std::filesystem::remove(scratch / "lock");
  const StatusOr<LockFile> second = LockFile::Acquire(*directory, "lock");
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(LockFile::Acquire(*directory, "lock").status().code(), StatusCode::kAlreadyExists);
}

TEST(LockFiles, ALinkInTheirPlaceIsRefused) {
  const ScratchDirectory scratch;
  scratch.Write("victim", "precious");
  ASSERT_EQ(symlink((scratch / "victim").c_str(), (scratch / "lock").c_str()), 0);
  const StatusOr<Fd> directory = OpenPrivateDirectory(scratch.path(), 0700, Create::kNo);
  ASSERT_TRUE(directory.ok());
  EXPECT_EQ(LockFile::Acquire(*directory, "lock").status().code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(std::filesystem::file_size(scratch / "victim"), 8u);
}

}  // namespace
}  // namespace tensorbroker
