#include "tensorbroker/base/fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

Fd Null() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

TEST(Fds, ClosesWhatItOwnsOnce) {
  int number;
  {
    Fd fd = Null();
    number = fd.get();
    Fd taken = std::move(fd);
    EXPECT_FALSE(fd.valid());
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(Fds, AssignmentClosesTheOldOne) {
  Fd a = Null();
  const int old = a.get();
  Fd b = Null();
  const int kept = b.get();
  a = std::move(b);
  EXPECT_FALSE(IsOpen(old));
  EXPECT_EQ(a.get(), kept);
  EXPECT_TRUE(IsOpen(kept));
}

TEST(Fds, ResetKeepsErrno) {
  Fd fd = Null();
  errno = EEXIST;
  fd.reset();
  EXPECT_EQ(errno, EEXIST);
}

// Case L9.
TEST(Fds, CopiesAreCloseOnExec) {
  const Fd fd = Null();
  const StatusOr<Fd> copy = Dup(fd.get());
  ASSERT_TRUE(copy.ok());
  EXPECT_NE(copy->get(), fd.get());
  EXPECT_EQ(fcntl(copy->get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_EQ(Dup(-1).status().code(), StatusCode::kFailedPrecondition);
}

TEST(Errnos, HaveTheCodeThatTheCallerCanActOn) {
  EXPECT_EQ(ErrnoStatus(ENOENT, "x").code(), StatusCode::kNotFound);
  EXPECT_EQ(ErrnoStatus(EACCES, "x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(EPERM, "x").code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(ErrnoStatus(ENOSPC, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EFBIG, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EISDIR, "x").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(ErrnoStatus(EIO, "x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(ErrnoStatus(ENXIO, "x").code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(ErrnoStatus(EDQUOT, "x").code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(ErrnoStatus(EEXIST, "x").code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ErrnoStatus(ECONNREFUSED, "x").code(), StatusCode::kUnavailable);
  EXPECT_EQ(Message(ErrnoStatus(ENOENT, "open the door")), "open the door: No such file or directory");
}

// Case C1.
TEST(Errnos, RunningOutOfDescriptorsNamesTheLimitAndTheRemedy) {
  EXPECT_EQ(::tensorbroker::testing::InChild([] {
              const rlimit few{16, 16};
              setrlimit(RLIMIT_NOFILE, &few);
              while (Null().release() >= 0) {
              }
              const Status status = Dup(0).status();
              const bool told =
                  std::string(Message(status)).find("16 descriptors open") != std::string::npos &&
                  std::string(Message(status)).find("ulimit -n") != std::string::npos;
              return status.code() == StatusCode::kResourceExhausted && told ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace tensorbroker
