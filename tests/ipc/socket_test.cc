#include "tensorbroker/ipc/socket.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <string>

#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using std::chrono::seconds;
using testing::CountOpenFds;
using ::testing::HasSubstr;
using testing::InChild;
using testing::ScratchDirectory;

std::string Text(const Status& status) { return std::string(Message(status)); }
std::span<const std::byte> Bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

bool IsCloseOnExec(const Fd& fd) { return (fcntl(fd.get(), F_GETFD) & FD_CLOEXEC) != 0; }

mode_t ModeOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info.st_mode & 07777;
}

// Sends one byte with `fds`, past SendWithFd's limit of one.
void SendFds(int socket, std::vector<int> fds) {
  char byte = 'x';
  iovec piece{&byte, 1};
  std::vector<char> control(CMSG_SPACE(fds.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* head = CMSG_FIRSTHDR(&message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
  std::memcpy(CMSG_DATA(head), fds.data(), fds.size() * sizeof(int));
  ASSERT_EQ(sendmsg(socket, &message, 0), 1);
}

// Case F8.
TEST(SocketPaths, OverTheKernelsLimitSayTheirLengthAndTheLimit) {
  EXPECT_TRUE(CheckSocketPath(std::string(107, 'a')).ok());
  const Status status = CheckSocketPath("/" + std::string(119, 'a'));
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Text(status), HasSubstr("has 120 bytes"));
  EXPECT_THAT(Text(status), HasSubstr("107"));
  EXPECT_EQ(CheckSocketPath("").code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(CheckSocketPath(std::string_view("a\0b", 3)).code(), StatusCode::kInvalidArgument);
}

TEST(Sockets, APathOfTheLongestLengthWorks) {
  const ScratchDirectory scratch;
  std::string path = scratch.path() + "/";
  path += std::string(kMaxSocketPathBytes - path.size(), 's');
  const StatusOr<Fd> listener = ListenUnix(path, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_TRUE(ConnectUnix(path, seconds(2)).ok());
}

// Case F8.
TEST(Sockets, AMissingOneAndADeadOneAreToldApart) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "broker.sock";
  const Status missing = ConnectUnix(path, seconds(2)).status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(Text(missing), HasSubstr("no broker runs there"));
  ASSERT_TRUE(ListenUnix(path, {}).ok());  // closed at once: the file stays
  const Status dead = ConnectUnix(path, seconds(2)).status();
  EXPECT_EQ(dead.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(dead), HasSubstr("its broker has ended"));
}

// Cases F8, S2.
TEST(Sockets, AForbiddenOneNamesTheUidAndWhatWouldAllowIt) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another uid";
  const ScratchDirectory scratch("/tmp");
  ASSERT_EQ(chmod(scratch.path().c_str(), 0755), 0);
  const std::string path = scratch / "broker.sock";
  const StatusOr<Fd> listener = ListenUnix(path, {});
  ASSERT_TRUE(listener.ok());
  EXPECT_EQ(InChild([&path] {
              if (setgid(65534) != 0 || setuid(65534) != 0) return 2;
              const Status status = ConnectUnix(path, seconds(2)).status();
              const bool told = Text(status).find("uid 65534") != std::string::npos &&
                                Text(status).find("--socket-group") != std::string::npos;
              return status.code() == StatusCode::kPermissionDenied && told ? 0 : 1;
            }),
            0);
}

// Case S2.
TEST(Sockets, HaveTheirModeWhateverTheUmask) {
  const ScratchDirectory scratch;
  for (const mode_t mask : {000, 077, 0777}) {
    const std::string path = scratch / std::to_string(mask);
    const mode_t before = umask(mask);
    const StatusOr<Fd> listener = ListenUnix(path, {.mode = 0660, .group = getegid()});
    umask(before);
    ASSERT_TRUE(listener.ok()) << listener.status();
    EXPECT_EQ(ModeOf(path), 0660u);
    EXPECT_TRUE(IsCloseOnExec(*listener));
  }
}

// Case F8.
TEST(Sockets, ALiveOneIsNotReplacedAndItsPidIsNamed) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "broker.sock";
  const StatusOr<Fd> first = ListenUnix(path, {});
  ASSERT_TRUE(first.ok());
  const Status second = ListenUnix(path, {}).status();
  EXPECT_EQ(second.code(), StatusCode::kAlreadyExists);
  EXPECT_THAT(Text(second), HasSubstr("already running, pid " + std::to_string(getpid())));
  EXPECT_TRUE(ConnectUnix(path, seconds(2)).ok());
}

// Case F8.
TEST(Sockets, AStaleOneIsReplaced) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "broker.sock";
  ASSERT_TRUE(ListenUnix(path, {}).ok());
  const StatusOr<Fd> second = ListenUnix(path, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(ConnectUnix(path, seconds(2)).ok());
}

TEST(Sockets, WhatIsNoSocketIsNotReplaced) {
  const ScratchDirectory scratch;
  scratch.Write("broker.sock", "precious");
  EXPECT_EQ(ListenUnix(scratch / "broker.sock", {}).status().code(), StatusCode::kAlreadyExists);
  EXPECT_TRUE(std::filesystem::exists(scratch / "broker.sock"));
  EXPECT_EQ(ListenUnix(scratch / "none/broker.sock", {}).status().code(), StatusCode::kNotFound);
}

TEST(Sockets, AFullQueueEndsAConnectAtItsTimeout) {
  const ScratchDirectory scratch;
  const std::string path = scratch / "broker.sock";
  const StatusOr<Fd> listener = ListenUnix(path, {.backlog = 0});
  ASSERT_TRUE(listener.ok());
  std::vector<Fd> waiting;
  Status last = OkStatus();
  for (int i = 0; i < 8 && last.ok(); ++i) {
    StatusOr<Fd> fd = ConnectUnix(path, std::chrono::milliseconds(20));
    last = fd.status();
    if (fd.ok()) waiting.push_back(*std::move(fd));
  }
  EXPECT_EQ(last.code(), StatusCode::kUnavailable);
  EXPECT_THAT(Text(last), HasSubstr("queue"));
}

TEST(DescriptorPassing, TheFileArrivesCloseOnExec) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  const ScratchDirectory scratch;
  scratch.Write("file", "hello");
  const Fd sent(open((scratch / "file").c_str(), O_RDONLY | O_CLOEXEC));
  const StatusOr<size_t> count = SendWithFd(pair->first.get(), Bytes("frame"), sent.get());
  ASSERT_TRUE(count.ok());
  EXPECT_EQ(*count, 5u);
  std::array<std::byte, 64> buffer;
  const StatusOr<Received> received = RecvWithFd(pair->second.get(), buffer);
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->bytes, 5u);
  ASSERT_TRUE(received->fd.valid());
  EXPECT_TRUE(IsCloseOnExec(received->fd));
  char text[8] = "";
  EXPECT_EQ(read(received->fd.get(), text, sizeof(text)), 5);
  EXPECT_STREQ(text, "hello");
}

TEST(DescriptorPassing, EachReceiveGivesTheDescriptorOfItsOwnBytes) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(SendWithFd(pair->first.get(), Bytes("a"), -1).ok());
  ASSERT_TRUE(SendWithFd(pair->first.get(), Bytes("b"), null.get()).ok());
  ASSERT_TRUE(SendWithFd(pair->first.get(), Bytes("c"), null.get()).ok());
  int fds = 0;
  size_t bytes = 0;
  std::array<std::byte, 64> buffer;
  while (bytes < 3) {
    const StatusOr<Received> received = RecvWithFd(pair->second.get(), buffer);
    ASSERT_TRUE(received.ok());
    bytes += received->bytes;
    fds += received->fd.valid() ? 1 : 0;
  }
  EXPECT_EQ(fds, 2);
}

TEST(DescriptorPassing, MoreThanOneIsRefusedAndNoneLeaks) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int before = CountOpenFds();
  std::array<std::byte, 64> buffer;
  for (const size_t count : {2, 16, 100}) {  // 100: more than there is room for
    SendFds(pair->first.get(), std::vector<int>(count, null.get()));
    EXPECT_EQ(RecvWithFd(pair->second.get(), buffer).status().code(), StatusCode::kInvalidArgument) << count;
  }
  EXPECT_EQ(CountOpenFds(), before);
}

// Case C1.
TEST(DescriptorPassing, OneThatCannotBeTakenIsResourceExhausted) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(SendWithFd(pair->first.get(), Bytes("x"), null.get()).ok());
  EXPECT_EQ(InChild([&pair] {
              const rlimit few{8, 8};
              setrlimit(RLIMIT_NOFILE, &few);
              while (dup(0) >= 0) {
              }
              std::array<std::byte, 64> buffer;
              const StatusOr<Received> received = RecvWithFd(pair->second.get(), buffer);
              return received.ok() && received->bytes == 1 && received->fd_lost && !received->fd.valid() ? 0
                                                                                                         : 1;
            }),
            0);
}

TEST(DescriptorPassing, NothingThereAndNoRoomAreNoErrors) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  std::array<std::byte, 64> buffer;
  const StatusOr<Received> nothing = RecvWithFd(pair->second.get(), buffer, MSG_DONTWAIT);
  ASSERT_TRUE(nothing.ok());
  EXPECT_TRUE(nothing->would_block);
  EXPECT_FALSE(nothing->closed());
  const std::string block(1 << 16, 'x');
  while (true) {
    const StatusOr<size_t> sent = SendWithFd(pair->first.get(), Bytes(block), -1, MSG_DONTWAIT);
    ASSERT_TRUE(sent.ok());
    if (*sent == 0) break;
  }
}

TEST(DescriptorPassing, APeerThatHasGoneIsAStatusNotASignal) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  pair->second.reset();
  EXPECT_EQ(SendWithFd(pair->first.get(), Bytes("x"), -1).status().code(), StatusCode::kUnavailable);
  std::array<std::byte, 64> buffer;
  const StatusOr<Received> end = RecvWithFd(pair->first.get(), buffer);
  ASSERT_TRUE(end.ok());
  EXPECT_TRUE(end->closed());
}

}  // namespace
}  // namespace tensorbroker
