// Words and lines of text that programs and people write: files of /proc and /sys, configuration.
#ifndef TENSORBROKER_BASE_TEXT_H_
#define TENSORBROKER_BASE_TEXT_H_

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

namespace tensorbroker {

// Without the white space around it.
inline std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// The number that `text` begins with, after white space.
inline std::optional<int64_t> LeadingNumber(std::string_view text) {
  text = Trim(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return std::nullopt;
  return number;
}

// Calls `visit` with each line, without its newline.
template <typename Visit>
void ForEachLine(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_TEXT_H_
