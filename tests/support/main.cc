// main() of the tests that start other processes: a child's work, or gtest.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>

namespace tensorbroker::testing {
std::optional<int> RunChild(int argc, char** argv);
}

#if defined(__SANITIZE_ADDRESS__)
static const pid_t g_started_as = getpid();
#endif

#if defined(__SANITIZE_THREAD__)
// A forked child opens its own session, with threads of its own. A program that exits with live Subscriptions has
// threads that nobody joins: that is the case that tests look at.
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0:report_thread_leaks=0:ignore_noninstrumented_modules=1";
}
#endif

#if defined(__SANITIZE_ADDRESS__)
// The leak checker stops all threads of its process and finds them in /proc. In a forked child it looks for its parent's
// threads too, and in a pid namespace under another one's /proc for strangers: what it reports then is false.
extern "C" int __lsan_is_turned_off() {
  char proc_self[16] = {};
  const bool seen = readlink("/proc/self", proc_self, sizeof proc_self - 1) > 0;
  return g_started_as != getpid() || !seen || atoi(proc_self) != getpid();
}
#endif

int main(int argc, char** argv) {
  if (const std::optional<int> code = tensorbroker::testing::RunChild(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
