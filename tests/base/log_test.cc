#include "tensorbroker/base/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "tensorbroker/base/fd.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// stderr is a pipe for as long as this lives.
class PipedStderr {
 public:
  PipedStderr() : usual_(dup(STDERR_FILENO)) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end_.reset(ends[0]);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    fcntl(read_end_.get(), F_SETFL, O_NONBLOCK);
  }
  ~PipedStderr() { dup2(usual_.get(), STDERR_FILENO); }

  void Fill() {
    fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK);
    while (write(STDERR_FILENO, "x", 1) == 1) {
    }
    fcntl(STDERR_FILENO, F_SETFL, 0);
  }
  std::string Read() {
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = read(read_end_.get(), buffer, sizeof(buffer))) > 0;) {
      text.append(buffer, static_cast<size_t>(got));
    }
    return text;
  }

 private:
  Fd usual_;
  Fd read_end_;
};

TEST(LogTest, ALineHoldsItsFields) {
  PipedStderr pipe;
  Log(LogLevel::kWarning, "event", {{"key", "two words"}, {"count", 3}});
  EXPECT_THAT(pipe.Read(), HasSubstr("warning event key=\"two words\" count=3\n"));
}

TEST(LogTest, WhatATerminalObeysIsEscaped) {
  PipedStderr pipe;
  Log(LogLevel::kError, "event",
      {{"c1",
        "\xc2\x9b"
        "31m"},
       {"broken", "\xff"},
       {"plain", "\xc3\xa9t\xc3\xa9"}});
  const std::string text = pipe.Read();
  EXPECT_THAT(text, HasSubstr("c1=\"\\xc2\\x9b31m\" broken=\"\\xff\" plain=\xc3\xa9t\xc3\xa9\n"));
}

TEST(LogTest, AStderrThatNobodyReadsStopsNobody) {
  PipedStderr pipe;
  pipe.Fill();
  for (int i = 0; i < 1000; ++i) Log(LogLevel::kError, "dropped");
  pipe.Read();
  Log(LogLevel::kError, "after");
  const std::string text = pipe.Read();
  EXPECT_THAT(text, HasSubstr("log_lines_lost count=1000"));
  EXPECT_THAT(text, HasSubstr("error after\n"));
  EXPECT_THAT(text, Not(HasSubstr("dropped")));
}

TEST(LogTest, AnEndlessLineIsCut) {
  PipedStderr pipe;
  Log(LogLevel::kError, std::string(1 << 20, 'x'));
  EXPECT_LE(pipe.Read().size(), 4096u);
}

}  // namespace
}  // namespace tensorbroker
