// TB_FUZZ_CHECK: an assertion that ends the program in every build, so that a fuzzer keeps the input.
#ifndef TENSORBROKER_TESTS_FUZZ_CHECK_H_
#define TENSORBROKER_TESTS_FUZZ_CHECK_H_

#include <cstdio>
#include <cstdlib>

#define TB_FUZZ_CHECK(condition)                                                     \
  do {                                                                               \
    if (!(condition)) {                                                              \
      std::fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                  \
    }                                                                                \
  } while (false)

#endif  // TENSORBROKER_TESTS_FUZZ_CHECK_H_
