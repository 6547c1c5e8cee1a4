// How much of a case a test does here: the sanitizers make all code slower, and full counts are for who has the time.
#ifndef TENSORBROKER_TESTS_SUPPORT_SCALE_H_
#define TENSORBROKER_TESTS_SUPPORT_SCALE_H_

#include <cstdlib>
#include <string_view>

#if defined(__has_feature)  // clang's way to say it
#define TB_HAS_FEATURE(feature) __has_feature(feature)
#else
#define TB_HAS_FEATURE(feature) 0
#endif

namespace tensorbroker::testing {

// What the cases' time limits are multiplied by.
#if defined(__SANITIZE_THREAD__) || TB_HAS_FEATURE(thread_sanitizer)
#define TB_SANITIZED 1
inline constexpr int kSlack = 10;
#elif defined(__SANITIZE_ADDRESS__) || TB_HAS_FEATURE(address_sanitizer)
#define TB_SANITIZED 1
inline constexpr int kSlack = 5;
#else
#define TB_SANITIZED 0
inline constexpr int kSlack = 1;
#endif
inline constexpr bool kSanitized = TB_SANITIZED != 0;

// The case's own count where TENSORBROKER_LONG_TESTS is set (`test.sh --long`), else `brief`, which each run can afford.
inline int LongOr(int full, int brief) {
  const char* const text = std::getenv("TENSORBROKER_LONG_TESTS");
  return text != nullptr && *text != '\0' && std::string_view(text) != "0" ? full : brief;
}

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_SUPPORT_SCALE_H_
