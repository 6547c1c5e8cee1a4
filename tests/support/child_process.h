// Other processes for a test: a forked copy of it, or a fresh program, that talks with it through a socket
// pair.
//
//   TB_CHILD(Reader) { auto name = channel.Receive(); ... channel.Send("done"); return 0; }
//   auto reader = ChildProcess::Spawn("Reader", {broker.socket()});
//   EXPECT_EQ(reader.Receive(), "done");
//
// The support library has main(): it runs a TB_CHILD where the process was spawned for one, else all tests.
#ifndef TENSORBROKER_TESTS_SUPPORT_CHILD_PROCESS_H_
#define TENSORBROKER_TESTS_SUPPORT_CHILD_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"

namespace tensorbroker::testing {

inline constexpr Duration kChildTimeout = std::chrono::seconds(30);

// One end of the pair: whole messages, in order. Not thread-safe.
class Channel {
 public:
  explicit Channel(Fd fd) : fd_(std::move(fd)) {}
  // False where the other end is gone.
  bool Send(std::string_view message);
  // The next message; nothing where the other end is gone, or `timeout` passed.
  std::optional<std::string> Receive(Duration timeout = kChildTimeout);
  int fd() const { return fd_.get(); }
  void Close() { fd_.reset(); }

 private:
  Fd fd_;
};

using ChildMain = std::function<int(Channel& channel, const std::vector<std::string>& arguments)>;

// Owns the process: kills it where it still runs, and reaps it. Not thread-safe.
class ChildProcess {
 public:
  // A copy of this process by fork(2); it runs `body` and _exits with what it gives (gtest failures in it:
  // 1). It never runs this process's destructors or exit handlers.
  static ChildProcess Fork(const std::function<int(Channel& channel)>& body);
  // A fresh program (this test binary again, by exec) that runs TB_CHILD(`name`) and returns from main.
  static ChildProcess Spawn(const std::string& name, std::vector<std::string> arguments = {},
                            const std::string& stderr_path = {});
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess();

  pid_t pid() const { return pid_; }
  bool Send(std::string_view message) { return channel_.Send(message); }
  std::optional<std::string> Receive(Duration timeout = kChildTimeout) { return channel_.Receive(timeout); }
  // Waits for its end; the exit code, or 128 + signal, or -1 where it did not end in time (it is killed
  // then).
  int Wait(Duration timeout = kChildTimeout);
  void Signal(int signal);
  // SIGKILL and Wait.
  void Kill();

 private:
  ChildProcess(pid_t pid, Fd fd) : pid_(pid), channel_(std::move(fd)) {}
  pid_t pid_ = 0;
  Channel channel_;
};

// Waits for the child `pid` and gives its exit code, or 128 + signal.
int WaitForExit(pid_t pid);
// False where it did not end in time.
bool WaitForExit(pid_t pid, Duration timeout, int* code);

bool RegisterChild(std::string name, ChildMain main);

}  // namespace tensorbroker::testing

#define TB_CHILD(name)                                                                 \
  static int TbChild##name(::tensorbroker::testing::Channel& channel,                  \
                           const std::vector<std::string>& arguments);                 \
  [[maybe_unused]] static const bool tb_child_registered_##name =                      \
      ::tensorbroker::testing::RegisterChild(#name, TbChild##name);                    \
  static int TbChild##name([[maybe_unused]] ::tensorbroker::testing::Channel& channel, \
                           [[maybe_unused]] const std::vector<std::string>& arguments)

#endif  // TENSORBROKER_TESTS_SUPPORT_CHILD_PROCESS_H_
