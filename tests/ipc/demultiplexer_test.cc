#include "tensorbroker/ipc/demultiplexer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensorbroker/base/log.h"
#include "tensorbroker/ipc/socket.h"
#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::InChild;
using testing::ScratchDirectory;

class Demultiplexers : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }

  void Start(DemultiplexerOptions options) {
    demultiplexer_.reset();
    auto loop = EventLoop::Create();
    ASSERT_TRUE(loop.ok());
    loop_ = *std::move(loop);
    StatusOr<Fd> listener = ListenUnix(path_, {});
    ASSERT_TRUE(listener.ok()) << listener.status();
    const auto arrive = [this](std::vector<Fd>& list) {
      return [this, &list](Fd fd, PeerIdentity peer) {
        EXPECT_EQ(peer.pid, getpid());
        EXPECT_NE(fcntl(fd.get(), F_GETFL) & O_NONBLOCK, 0);
        EXPECT_NE(fcntl(fd.get(), F_GETFD) & FD_CLOEXEC, 0);
        list.push_back(std::move(fd));
        loop_->Stop();
      };
    };
    options.on_grpc = arrive(grpc_);
    options.on_lease = arrive(leases_);
    auto demultiplexer = Demultiplexer::Start(loop_.get(), *std::move(listener), std::move(options));
    ASSERT_TRUE(demultiplexer.ok()) << demultiplexer.status();
    demultiplexer_ = *std::move(demultiplexer);
    loop_->RunAfter(seconds(30), [this] {
      ADD_FAILURE() << "nothing happened";
      loop_->Stop();
    });
  }

  Fd Connect(std::string_view bytes = "") {
    StatusOr<Fd> fd = ConnectUnix(path_, seconds(5));
    EXPECT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(send(fd->get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
    return *std::move(fd);
  }

  // Runs the loop until the other end of `fd` is closed.
  void RunUntilClosed(const Fd& fd) {
    ASSERT_TRUE(loop_
                    ->Add(fd.get(), EPOLLRDHUP,
                          [this, number = fd.get()](uint32_t) {
                            loop_->Remove(number);
                            loop_->Stop();
                          })
                    .ok());
    loop_->Run();
  }

  const ScratchDirectory scratch_;
  const std::string path_ = scratch_ / "socket";
  std::unique_ptr<EventLoop> loop_;
  std::unique_ptr<Demultiplexer> demultiplexer_;
  std::vector<Fd> grpc_;
  std::vector<Fd> leases_;
};

TEST_F(Demultiplexers, GiveGrpcItsConnectionsUnread) {
  const Fd client = Connect("PRI * HTTP/2.0");
  loop_->Run();
  ASSERT_EQ(grpc_.size(), 1u);
  EXPECT_TRUE(leases_.empty());
  char text[32] = "";
  EXPECT_EQ(read(grpc_[0].get(), text, sizeof(text)), 14);
  EXPECT_STREQ(text, "PRI * HTTP/2.0");
}

TEST_F(Demultiplexers, GiveALeaseItsConnectionsUnread) {
  const Fd client = Connect("TBL1");
  loop_->Run();
  ASSERT_EQ(leases_.size(), 1u);
  char text[32] = "";
  EXPECT_EQ(read(leases_[0].get(), text, sizeof(text)), 4);
  EXPECT_STREQ(text, "TBL1");
}

TEST_F(Demultiplexers, OneThatSaysNothingHoldsUpNoOther) {
  const Fd silent = Connect();
  const Fd client = Connect("P");
  loop_->Run();
  EXPECT_EQ(grpc_.size(), 1u);
  EXPECT_EQ(demultiplexer_->pending(), 1u);
}

TEST_F(Demultiplexers, CloseWhatAUidHasOverItsShareOfSilentConnections) {
  Start({.max_pending_of = [](uid_t uid) { return uid == geteuid() ? size_t{2} : size_t{0}; }});
  Fd first = Connect();
  const Fd second = Connect();
  const Fd third = Connect();
  Fd fourth, fifth;
  const auto when_closed = [this](const Fd& fd, std::function<void()> then) {
    ASSERT_TRUE(loop_
                    ->Add(fd.get(), EPOLLRDHUP,
                          [this, number = fd.get(), then = std::move(then)](uint32_t) {
                            const auto last = then;  // Remove ends the function that runs
                            loop_->Remove(number);
                            last();
                          })
                    .ok());
  };
  // One that has gone makes room for one more.
  const std::function<void()> once_first_has_gone = [&] {
    if (demultiplexer_->pending() > 1) {
      loop_->Post(once_first_has_gone);
      return;
    }
    fourth = Connect();
    fifth = Connect();
    when_closed(fifth, [this] { loop_->Stop(); });
  };
  when_closed(third, [&] {
    EXPECT_EQ(demultiplexer_->pending(), 2u);
    first.reset();
    once_first_has_gone();
  });
  loop_->Run();
  EXPECT_EQ(demultiplexer_->pending(), 2u);
}

TEST_F(Demultiplexers, CloseWhatSpeaksNeitherProtocol) {
  const Fd client = Connect("GET / HTTP/1.1");
  RunUntilClosed(client);
  EXPECT_TRUE(grpc_.empty() && leases_.empty());
  EXPECT_EQ(demultiplexer_->pending(), 0u);
}

TEST_F(Demultiplexers, CloseWhatSaysNothingInTime) {
  Start({.first_byte_timeout = milliseconds(5)});
  const Fd client = Connect();
  RunUntilClosed(client);
  EXPECT_EQ(demultiplexer_->pending(), 0u);
}

TEST_F(Demultiplexers, ForgetAPeerThatLeftWithoutAWord) {
  Connect();
  const Fd client = Connect("P");
  loop_->Run();
  EXPECT_EQ(grpc_.size(), 1u);
  EXPECT_EQ(demultiplexer_->pending(), 0u);
}

TEST_F(Demultiplexers, CloseMoreThanTheirLimitOfSilentOnes) {
  Start({.max_pending = 2});
  const Fd a = Connect();
  const Fd b = Connect();
  const Fd c = Connect();
  RunUntilClosed(c);
  EXPECT_EQ(demultiplexer_->pending(), 2u);
}

TEST_F(Demultiplexers, CloseWhatTheHookRefuses) {
  Start({.refuse = [](const PeerIdentity&) { return "no"; }});
  const Fd client = Connect("P");
  RunUntilClosed(client);
  EXPECT_TRUE(grpc_.empty());
}

TEST_F(Demultiplexers, HandNothingOnAfterStopAccepting) {
  const Fd silent = Connect();
  const Fd waiting = Connect("P");
  demultiplexer_->StopAccepting();
  demultiplexer_->StopAccepting();
  loop_->Post([this] { loop_->Stop(); });
  loop_->Run();
  EXPECT_TRUE(grpc_.empty());
  EXPECT_EQ(ConnectUnix(path_, seconds(1)).status().code(), StatusCode::kUnavailable);
}

TEST_F(Demultiplexers, MayEndInsideTheirOwnCallback) {
  Start({.refuse = [this](const PeerIdentity&) {
    loop_->Post([this] {
      demultiplexer_.reset();
      loop_->Stop();
    });
    return "";
  }});
  const Fd client = Connect("P");
  const Fd second = Connect();
  loop_->Run();
  EXPECT_EQ(demultiplexer_, nullptr);
}

TEST_F(Demultiplexers, RefuseWithoutSpinningWhenDescriptorsRunOut) {
  EXPECT_EQ(InChild([this] {
              SetLogLevel(LogLevel::kOff);
              rlimit limit{};
              getrlimit(RLIMIT_NOFILE, &limit);
              const Fd client = Connect("P");
              std::vector<Fd> hoard;
              limit.rlim_cur = 64;
              setrlimit(RLIMIT_NOFILE, &limit);
              while (true) {
                Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
                if (!fd.valid()) break;
                hoard.push_back(std::move(fd));
              }
              Fd second;
              // Refused, not left in the queue; and once there is room, the next one is served.
              (void)loop_->Add(client.get(), EPOLLRDHUP, [&](uint32_t) {
                loop_->Remove(client.get());
                if (!grpc_.empty()) _exit(1);
                hoard.clear();
                second = Connect("P");
              });
              loop_->Run();
              return grpc_.size() == 1 ? 0 : 2;
            }),
            0);
}

}  // namespace
}  // namespace tensorbroker
