// Words in one message, between a test and its agents.
#ifndef TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_WORDS_H_
#define TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_WORDS_H_

#include <string>
#include <string_view>
#include <vector>

namespace tensorbroker::testing {

inline std::string JoinWords(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += '\x1f';
    text += words[i];
  }
  return text;
}

inline std::vector<std::string> SplitWords(std::string_view text) {
  std::vector<std::string> words;
  for (;;) {
    const size_t end = text.find('\x1f');
    words.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return words;
    text.remove_prefix(end + 1);
  }
}

inline std::string ToHex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[(static_cast<unsigned char>(c) >> 4) & 15];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

inline std::string FromHex(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(text.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_WORDS_H_
