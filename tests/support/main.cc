// main() of the tests that start other processes: a child's work, or gtest.
#include <gtest/gtest.h>

#include <optional>

namespace tensorbroker::testing {
std::optional<int> RunChild(int argc, char** argv);
}

#if defined(__SANITIZE_THREAD__)
// A forked child opens its own session, with threads of its own. A program that exits with live Subscriptions has
// threads that nobody joins: that is the case that tests look at.
extern "C" const char* __tsan_default_options() {
  return "die_after_fork=0:report_thread_leaks=0:ignore_noninstrumented_modules=1";
}
#endif

int main(int argc, char** argv) {
  if (const std::optional<int> code = tensorbroker::testing::RunChild(argc, argv)) return *code;
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
