#include "tensorbroker/ipc/peer.h"

#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tensorbroker/ipc/process.h"
#include "tensorbroker/ipc/socket.h"
#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using std::chrono::seconds;
using testing::ScratchDirectory;

class Peers : public ::testing::Test {
 protected:
  void SetUp() override {
    StatusOr<Fd> listener = ListenUnix(path_, {.mode = 0666});
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = *std::move(listener);
    ASSERT_EQ(chmod(scratch_.path().c_str(), 0755), 0);
  }

  // A child that becomes what `become` makes of it, connects, and waits to be killed.
  template <typename Become>
  pid_t StartClient(Become become) {
    const pid_t pid = fork();
    if (pid == 0) {
      if (!become()) _exit(2);
      const StatusOr<Fd> fd = ConnectUnix(path_, seconds(5));
      if (!fd.ok()) _exit(1);
      while (true) pause();
    }
    return pid;
  }

  Fd Accept() {
    Fd fd;
    while (!fd.valid()) fd.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return fd;
  }

  static void End(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }

  ScratchDirectory scratch_{"/tmp"};
  const std::string path_ = scratch_ / "socket";
  Fd listener_;
};

TEST_F(Peers, AreKnownByTheKernelsWord) {
  const pid_t pid = StartClient([] { return true; });
  const Fd fd = Accept();
  const StatusOr<PeerIdentity> peer = IdentifyPeer(fd.get());
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->pid, pid);
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->gid, getegid());
  EXPECT_TRUE(peer->InGroup(getegid()));
  EXPECT_EQ(fcntl(peer->pidfd.get(), F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
  EXPECT_FALSE(PidfdHasEnded(peer->pidfd.get()));
  End(pid);
  EXPECT_TRUE(PidfdHasEnded(peer->pidfd.get()));
}

TEST_F(Peers, OfAnotherUidHaveTheirGroups) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to become another uid";
  const pid_t pid = StartClient([] {
    std::vector<gid_t> groups;
    for (gid_t g = 5000; g < 5100; ++g) groups.push_back(g);  // more than the first guess has room for
    return setgroups(groups.size(), groups.data()) == 0 && setgid(4242) == 0 && setuid(4243) == 0;
  });
  const Fd fd = Accept();
  const StatusOr<PeerIdentity> peer = IdentifyPeer(fd.get());
  End(pid);
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->uid, 4243u);
  EXPECT_EQ(peer->gid, 4242u);
  EXPECT_EQ(peer->groups.size(), 100u);
  EXPECT_TRUE(peer->InGroup(5099));
  EXPECT_TRUE(peer->InGroup(4242));
  EXPECT_FALSE(peer->InGroup(0));
}

TEST_F(Peers, ThatHaveEndedAreRefused) {
  const pid_t pid = StartClient([] { return true; });
  const Fd fd = Accept();
  End(pid);
  EXPECT_EQ(IdentifyPeer(fd.get()).status().code(), StatusCode::kUnauthenticated);
}

TEST_F(Peers, OfWhatIsNoSocketAreRefused) {
  const Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(IdentifyPeer(null.get()).status().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(IdentifyPeer(-1).status().code(), StatusCode::kUnauthenticated);
}

// Case S3.
TEST_F(Peers, TwoConnectionsOfOneProcessAreTheSameAndOthersAreNot) {
  const pid_t first = StartClient([this] { return ConnectUnix(path_, seconds(5)).value().release() >= 0; });
  const StatusOr<PeerIdentity> a = IdentifyPeer(Accept().get());
  const StatusOr<PeerIdentity> b = IdentifyPeer(Accept().get());
  const pid_t second = StartClient([] { return true; });
  const StatusOr<PeerIdentity> c = IdentifyPeer(Accept().get());
  ASSERT_TRUE(a.ok() && b.ok() && c.ok());
  EXPECT_TRUE(SameProcess(*a, *b));
  EXPECT_FALSE(SameProcess(*a, *c));
  End(first);
  End(second);
}

// Case P6: a pid in a namespace of its own shows here as this namespace's pid, or as 0 with a pidfd.
TEST_F(Peers, InAPidNamespaceOfTheirOwnAreToldApart) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make pid namespaces";
  std::vector<pid_t> parents;
  std::vector<PeerIdentity> peers;
  for (int i = 0; i < 2; ++i) {
    const pid_t parent = fork();
    if (parent == 0) {
      if (unshare(CLONE_NEWPID) != 0) _exit(3);
      const pid_t child = StartClient([] { return getpid() == 1; });
      waitpid(child, nullptr, 0);
      _exit(0);
    }
    parents.push_back(parent);
    StatusOr<PeerIdentity> peer = IdentifyPeer(Accept().get());
    ASSERT_TRUE(peer.ok()) << peer.status();
    peers.push_back(*std::move(peer));
  }
  EXPECT_FALSE(SameProcess(peers[0], peers[1]));
  ASSERT_TRUE(PidfdSendSignal(peers[0].pidfd.get(), SIGKILL).ok());
  EXPECT_TRUE(PidfdWait(peers[0].pidfd.get(), seconds(10)));
  EXPECT_FALSE(PidfdHasEnded(peers[1].pidfd.get()));
  ASSERT_TRUE(PidfdSendSignal(peers[1].pidfd.get(), SIGKILL).ok());
  for (const pid_t parent : parents) waitpid(parent, nullptr, 0);
}

}  // namespace
}  // namespace tensorbroker
