// The thread sanitizer ends a forked child that starts a thread with the id of a parent's that is gone ("dup thread"):
// gRPC's own threads are stopped and started around a fork, so a child that makes calls meets that. Such tests run in
// every other build; under this sanitizer they are skipped, visibly.
#ifndef TENSORBROKER_TESTS_SUPPORT_FORK_UNDER_TSAN_H_
#define TENSORBROKER_TESTS_SUPPORT_FORK_UNDER_TSAN_H_

#include <gtest/gtest.h>

#if defined(__SANITIZE_THREAD__)
#define TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN() \
  GTEST_SKIP() << "the thread sanitizer cannot follow a forked child that makes calls"
#else
#define TB_SKIP_CALLS_OF_FORKED_CHILDREN_UNDER_TSAN() static_cast<void>(0)
#endif

#endif  // TENSORBROKER_TESTS_SUPPORT_FORK_UNDER_TSAN_H_
