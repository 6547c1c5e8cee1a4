#include "tensorbroker/ipc/event_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tensorbroker/ipc/socket.h"

namespace tensorbroker {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class EventLoops : public ::testing::Test {
 protected:
  void SetUp() override {
    auto loop = EventLoop::Create();
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    // No test waits for ever.
    loop_->RunAfter(seconds(30), [] { FAIL() << "the loop was never stopped"; });
  }

  std::unique_ptr<EventLoop> loop_;
};

std::pair<Fd, Fd> ReadablePair() {
  auto pair = SocketPair();
  EXPECT_TRUE(pair.ok());
  EXPECT_EQ(write(pair->second.get(), "x", 1), 1);
  return *std::move(pair);
}

TEST_F(EventLoops, RunACallbackWhenItsDescriptorIsReady) {
  const auto [a, b] = ReadablePair();
  uint32_t seen = 0;
  ASSERT_TRUE(loop_
                  ->Add(a.get(), EPOLLIN,
                        [&](uint32_t events) {
                          seen = events;
                          loop_->Stop();
                        })
                  .ok());
  EXPECT_EQ(loop_->Add(a.get(), EPOLLIN, [](uint32_t) {}).code(), StatusCode::kAlreadyExists);
  loop_->Run();
  EXPECT_EQ(seen, static_cast<uint32_t>(EPOLLIN));
}

TEST_F(EventLoops, ARemovedDescriptorsPendingEventIsNotDelivered) {
  // Both are ready in one round; whichever runs first removes the other.
  const auto [a, a2] = ReadablePair();
  const auto [b, b2] = ReadablePair();
  int calls = 0;
  const auto watch = [&](int own, int other) {
    ASSERT_TRUE(loop_
                    ->Add(own, EPOLLIN,
                          [&, own, other](uint32_t) {
                            ++calls;
                            loop_->Remove(other);
                            loop_->Remove(own);
                            loop_->Post([this] { loop_->Stop(); });
                          })
                    .ok());
  };
  watch(a.get(), b.get());
  watch(b.get(), a.get());
  loop_->Run();
  EXPECT_EQ(calls, 1);
}

TEST_F(EventLoops, ANumberGivenOutAgainGetsNoEventOfItsPredecessor) {
  auto first = ReadablePair();
  auto second = ReadablePair();
  auto quiet = SocketPair();
  ASSERT_TRUE(quiet.ok());
  int wrong = 0;
  const auto replace = [&](Fd& victim) {
    // `victim`'s number now leads to a descriptor on which nothing happens.
    const int number = victim.get();
    loop_->Remove(number);
    ASSERT_EQ(dup3(quiet->first.get(), number, O_CLOEXEC), number);
    ASSERT_TRUE(loop_->Add(number, EPOLLIN, [&](uint32_t) { ++wrong; }).ok());
    loop_->Post([this] { loop_->Stop(); });
  };
  ASSERT_TRUE(loop_
                  ->Add(first.first.get(), EPOLLIN,
                        [&](uint32_t) {
                          loop_->Remove(first.first.get());
                          replace(second.first);
                        })
                  .ok());
  ASSERT_TRUE(loop_
                  ->Add(second.first.get(), EPOLLIN,
                        [&](uint32_t) {
                          loop_->Remove(second.first.get());
                          replace(first.first);
                        })
                  .ok());
  loop_->Run();
  EXPECT_EQ(wrong, 0);
}

TEST_F(EventLoops, ACallbackMayRemoveItselfAndWhatItOwns) {
  const auto [a, b] = ReadablePair();
  auto token = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = token;
  ASSERT_TRUE(loop_
                  ->Add(a.get(), EPOLLIN,
                        [this, fd = a.get(), token = std::move(token)](uint32_t) {
                          loop_->Remove(fd);
                          EXPECT_EQ(*token, 1);  // still there while it runs
                          loop_->Post([this] { loop_->Stop(); });
                        })
                  .ok());
  loop_->Run();
  EXPECT_TRUE(alive.expired());
}

TEST_F(EventLoops, ModifyChangesWhatIsWaitedFor) {
  auto pair = SocketPair();
  ASSERT_TRUE(pair.ok());
  int calls = 0;
  ASSERT_TRUE(loop_
                  ->Add(pair->first.get(), EPOLLOUT,
                        [&](uint32_t) {
                          ++calls;
                          EXPECT_TRUE(loop_->Modify(pair->first.get(), EPOLLIN).ok());
                          loop_->Post([this] { loop_->Stop(); });
                        })
                  .ok());
  loop_->Run();
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(loop_->Modify(12345, EPOLLIN).code(), StatusCode::kNotFound);
  EXPECT_EQ(loop_->Add(-1, EPOLLIN, [](uint32_t) {}).code(), StatusCode::kInvalidArgument);
}

TEST_F(EventLoops, PostedTasksRunInOrderOnTheLoopsThread) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 1000;
  std::vector<std::vector<int>> seen(kThreads);
  std::thread runner([this] { loop_->Run(); });
  const std::thread::id loops = runner.get_id();
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        EXPECT_TRUE(loop_->Post([&, t, i] {
          EXPECT_EQ(std::this_thread::get_id(), loops);
          seen[static_cast<size_t>(t)].push_back(i);
        }));
      }
    });
  }
  for (std::thread& poster : posters) poster.join();
  loop_->Stop();
  runner.join();
  for (const std::vector<int>& one : seen) {
    ASSERT_EQ(one.size(), static_cast<size_t>(kTasks));  // what was posted before Stop() has run
    EXPECT_TRUE(std::is_sorted(one.begin(), one.end()));
  }
  EXPECT_FALSE(loop_->Post([] {}));
}

TEST_F(EventLoops, TimersRunInOrderAndNotBeforeTheirTime) {
  std::string order;
  const TimePoint start = Clock::Real().Now();
  loop_->RunAfter(milliseconds(20), [&] {
    order += 'b';
    EXPECT_GE(Clock::Real().Now() - start, milliseconds(20));
    loop_->Stop();
  });
  const EventLoop::TimerId never = loop_->RunAfter(milliseconds(10), [&] { order += 'x'; });
  loop_->RunAfter(milliseconds(5), [&] {
    order += 'a';
    EXPECT_TRUE(loop_->Cancel(never));
  });
  loop_->RunAfter(kForever, [&] { order += 'x'; });
  loop_->Run();
  EXPECT_EQ(order, "ab");
  EXPECT_FALSE(loop_->Cancel(never));
}

TEST_F(EventLoops, StopBeforeRunStops) {
  bool ran = false;
  loop_->Post([&] { ran = true; });
  loop_->Stop();
  loop_->Run();
  EXPECT_TRUE(ran);
}

}  // namespace
}  // namespace tensorbroker
