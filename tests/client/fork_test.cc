// fork(2) in a process with a session.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/client/connect.h"
#include "tests/support/fork_under_tsan.h"
#include "tests/support/scale.h"

namespace tensorbroker::testing {
namespace {

using ::testing::HasSubstr;

constexpr int kForks = kSanitized ? 40 : 200;

// Case P1.
TEST(Fork, AnyCallInTheChildWorksOnAFreshSession) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Full({64}, 5));
  Must(tensor.Publish("p1"));
  for (int i = 0; i < kForks; ++i) {
    ChildProcess child = ChildProcess::Fork([&](Channel&) {
      if (tensor.data<float>()[63] != 5.0f) return 2;
      const auto start = std::chrono::steady_clock::now();
      const StatusOr<Tensor> opened = client.Open("p1");
      if (!opened.ok()) {
        fprintf(stderr, "%s\n", opened.status().ToString().c_str());
        return 3;
      }
      if (opened->data<const float>()[0] != 5.0f) return 4;
      if (!client.Empty({16}).ok()) return 5;
      if (std::chrono::steady_clock::now() - start > 1s) return 6;
      return 0;
    });
    Must(Must(client.Ones({4})).Publish("parent"));
    ASSERT_EQ(child.Wait(), 0) << "fork " << i;
  }
  EXPECT_EQ(tensor.data<float>()[0], 5.0f);
}

// Case L9.
TEST(Fork, AChildsEndTakesNothingFromTheParent) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor a = Must(client.Ones({4}));
  const Tensor b = Must(client.Ones({4}));
  ChildProcess child = ChildProcess::Fork([&](Channel&) {
    const Tensor copy = a;
    return Must(client.Open("none", {}).status().code() == StatusCode::kNotFound ? OkStatus()
                                                                                 : InternalError("?")),
           0;
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(Storages(client), 2u);
  Must(a.Publish("still/mine"));
  EXPECT_EQ(Must(client.inspector().Stat("still/mine")).holder_count, 1u);
}

// Case P7: the parent drops what a child still sees.
TEST(Fork, WhatTheParentDropsLivesUntilTheChildEnds) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  auto tensor = std::make_unique<Tensor>(Must(client.Full({1024}, 3)));
  ChildProcess child = ChildProcess::Fork([&](Channel& channel) {
    channel.Receive();
    return tensor->data<float>()[1023] == 3.0f ? 0 : 1;
  });
  tensor.reset();
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 1u);
  // A younger Storage does not wait for the child.
  { const Tensor young = Must(client.Ones({4})); }
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 1u);
  child.Send("look");
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(ComesTo(client, 0));
}

// Case P7. Every daemon closes the descriptors that it does not know.
TEST(Fork, AChildThatClosesItsDescriptorsStillKeepsWhatItSees) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  auto tensor = std::make_unique<Tensor>(Must(client.Full({1024}, 3)));
  int gone[2];
  int look[2];
  ASSERT_EQ(pipe2(gone, O_CLOEXEC), 0);
  ASSERT_EQ(pipe2(look, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(look[0], STDIN_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);  // the other end of `gone` reads the end
    char byte = 0;
    if (read(STDIN_FILENO, &byte, 1) != 1) _exit(2);
    _exit(tensor->data<float>()[0] == 3.0f && tensor->data<float>()[1023] == 3.0f ? 0 : 1);
  }
  close(gone[1]);
  close(look[0]);
  char byte = 0;
  EXPECT_EQ(read(gone[0], &byte, 1), 0);
  tensor.reset();
  Must(client.Flush());
  EXPECT_EQ(Storages(client), 1u);
  EXPECT_EQ(write(look[1], "x", 1), 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(ComesTo(client, 0));
  close(gone[0]);
  close(look[1]);
}

TEST(Fork, WhatTheParentDropsComesBackThoughItForkedOutOfDescriptors) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  auto tensor = std::make_unique<Tensor>(Must(client.Full({1024}, 3)));
  rlimit usual{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &usual), 0);
  const rlimit none{0, usual.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const pid_t child = fork();
  if (child == 0) _exit(tensor->data<float>()[1023] == 3.0f ? 0 : 1);
  EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &usual), 0);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  tensor.reset();
  EXPECT_TRUE(ComesTo(client, 0));
}

// Case P7: the child's own session takes over what it inherited, so the parent's end does not matter.
TEST(Fork, AChildClaimsWhatItInherited) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client operators = ConnectTo(*broker);
  ChildProcess parent = ChildProcess::Spawn("ParentThatDies", {broker->socket()});
  ASSERT_EQ(parent.Receive(), "claimed");
  parent.Kill();
  ASSERT_TRUE(
      Eventually(5s, [&] { return Must(operators.inspector().Stat("heir")).state == StorageState::kNamed; }));
  EXPECT_TRUE(Eventually(5s, [&] { return Must(operators.inspector().Stat("heir")).holder_count == 1u; }));
}

TB_CHILD(ParentThatDies) {
  const Client client = Must(Client::Connect({.socket = arguments[0]}));
  const Tensor tensor = Must(client.Full({16}, 4));
  if (fork() == 0) {
    // Its first call; the hold on `tensor` comes along.
    Must(tensor.Publish("heir"));
    channel.Send("claimed");
    channel.Receive(3s);  // until the test is over
    _exit(0);
  }
  channel.Receive();
  return 0;
}

// Case P7: the first attempt claims, and then fails.
TEST(Fork, WhatAFailedConnectClaimedIsClaimedAgain) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Full({16}, 4));
  ChildProcess child = ChildProcess::Fork([&](Channel&) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    size_t usual = 0;
    pthread_attr_getstacksize(&attributes, &usual);
    pthread_attr_setstacksize(&attributes, size_t{1} << 47);  // no thread starts with such a stack
    pthread_setattr_default_np(&attributes);
    if (tensor.Publish("again").code() != StatusCode::kResourceExhausted) return 2;
    pthread_attr_setstacksize(&attributes, usual);
    pthread_setattr_default_np(&attributes);
    Must(tensor.Publish("again"));
    const StorageRecord record = Must(client.inspector().Stat("again"));
    return record.holder_count == 2 ? 0 : 3;  // the parent, and this process by its claim
  });
  EXPECT_EQ(child.Wait(), 0);
}

TEST(Fork, NestedForksEachHaveASessionAndInherit) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  const Tensor tensor = Must(client.Full({16}, 6));
  ChildProcess child = ChildProcess::Fork([&](Channel&) {
    // This child makes no call: the grandchild claims from the grandparent.
    ChildProcess grandchild = ChildProcess::Fork([&](Channel&) {
      Must(tensor.Publish("grand"));
      ChildProcess last = ChildProcess::Fork([&](Channel&) {
        const Tensor same = Must(client.Open("grand"));
        return same.data<const float>()[15] == 6.0f && tensor.Publish("great").ok() ? 0 : 1;
      });
      return last.Wait();
    });
    return grandchild.Wait();
  });
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_TRUE(client.Open("great").ok());
  EXPECT_TRUE(Eventually(5s, [&] { return Must(client.inspector().Sessions(false)).size() == 1; }));
}

// Case P2 in spirit.
TEST(Fork, OtherThreadsMayBeInCalls) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  Must(Must(client.Full({64}, 1)).Publish("busy"));
  // Ended and joined however the test ends.
  struct Busy {
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    ~Busy() {
      done = true;
      for (std::thread& thread : threads) thread.join();
    }
  } busy;
  for (int t = 0; t < 3; ++t) {
    busy.threads.emplace_back([&, t] {
      while (!busy.done) {
        if (t == 0) {
          ASSERT_TRUE(client.Open("busy").ok());
        } else if (t == 1) {
          ASSERT_TRUE(client.Empty({16}).ok());
        } else {
          ASSERT_EQ(client.Open("never", {.timeout = 20ms}).status().code(), StatusCode::kDeadlineExceeded);
        }
      }
    });
  }
  for (int i = 0; i < kForks / 4; ++i) {
    std::vector<ChildProcess> children;
    for (int c = 0; c < 4; ++c) {
      children.push_back(ChildProcess::Fork([&](Channel&) { return client.Open("busy").ok() ? 0 : 1; }));
    }
    for (ChildProcess& child : children) ASSERT_EQ(child.Wait(), 0) << "round " << i;
  }
}

// Case P4 in a child, where gRPC's timer thread does not exist.
TEST(Fork, DeadlinesHoldInTheChild) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker, 1s);
  const Tensor tensor = Must(client.Ones({4}));
  ChildProcess child = ChildProcess::Fork([&](Channel& channel) {
    Must(client.inspector().Info());
    channel.Send("connected");
    channel.Receive();
    const auto start = std::chrono::steady_clock::now();
    const Status status = client.Open("x").status();
    if (status.code() != StatusCode::kDeadlineExceeded) return 2;
    if (Message(status).find(std::to_string(broker->pid())) == std::string_view::npos) return 3;
    if (std::chrono::steady_clock::now() - start > 3s) return 4;
    return 0;
  });
  ASSERT_EQ(child.Receive(), "connected");
  // A child whose very first call meets the stopped broker.
  ChildProcess fresh = ChildProcess::Fork([&](Channel& channel) {
    channel.Receive();
    const auto start = std::chrono::steady_clock::now();
    if (client.Open("x").status().code() != StatusCode::kDeadlineExceeded) return 2;
    return std::chrono::steady_clock::now() - start > 3s ? 3 : 0;
  });
  broker->Pause();
  child.Send("go");
  fresh.Send("go");
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(fresh.Wait(), 0);
  broker->Resume();
  EXPECT_EQ(tensor.data<float>()[0], 1.0f);
}

TEST(Fork, ASubscriptionStaysTheParents) {
  TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN();
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  std::atomic<int> events{0};
  auto subscription = std::make_unique<Subscription>(Must(client.OnEvent([&](const Event&) { ++events; })));
  ChildProcess child = ChildProcess::Fork([&](Channel&) {
    subscription.reset();
    return client.Ones({4}).ok() ? 0 : 1;
  });
  EXPECT_EQ(child.Wait(), 0);
  const int before = events;
  const Tensor tensor = Must(client.Ones({4}));
  EXPECT_TRUE(Eventually(5s, [&] { return events > before; }));
}

// Case P7: exec closes all that a child had.
TEST(Fork, ExecedChildrenPinNothing) {
  const auto broker = StartBroker();
  const Client client = ConnectTo(*broker);
  auto tensor = std::make_unique<Tensor>(Must(client.Ones({1024})));
  int gate[2];
  ASSERT_EQ(pipe(gate), 0);  // inherited over exec: `cat` ends when it closes
  const pid_t child = fork();
  if (child == 0) {
    dup2(gate[0], 0);
    close(gate[0]);
    close(gate[1]);
    execlp("cat", "cat", nullptr);
    _exit(127);
  }
  close(gate[0]);
  tensor.reset();
  EXPECT_TRUE(ComesTo(client, 0));
  close(gate[1]);
  EXPECT_EQ(WaitForExit(child), 0);
}

}  // namespace
}  // namespace tensorbroker::testing
