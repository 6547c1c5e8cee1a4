// How many random programs a test runs, and where they begin.
#ifndef TENSORBROKER_TESTS_TENSOR_PROGRAMS_H_
#define TENSORBROKER_TESTS_TENSOR_PROGRAMS_H_

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/support/scale.h"

namespace tensorbroker {

// A sanitizer costs a factor of ten and more.
inline constexpr uint64_t kPrograms = testing::kSanitized ? 5'000 : 100'000;

// The first program's seed: 1, or $TENSORBROKER_TEST_SEED.
inline uint64_t RandomSeed() {
  const char* text = std::getenv("TENSORBROKER_TEST_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_TESTS_TENSOR_PROGRAMS_H_
