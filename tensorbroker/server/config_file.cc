#include "tensorbroker/server/config_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/text.h"

namespace tensorbroker {
namespace {

// Where the comment begins that ends a value: a '#' at its start or after a space.
size_t CommentAt(std::string_view text) {
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '#' && (at == 0 || text[at - 1] == ' ' || text[at - 1] == '\t')) return at;
  }
  return text.size();
}

StatusOr<std::string_view> ParseValue(std::string_view text) {
  text = Trim(text);
  const char quote = text.empty() ? '\0' : text.front();
  if (quote != '"' && quote != '\'') return Trim(text.substr(0, CommentAt(text)));
  const size_t end = text.find(quote, 1);
  if (end == std::string_view::npos) return InvalidArgumentError("the quote does not end on its line");
  const std::string_view after = Trim(text.substr(end + 1));
  if (!after.empty() && after.front() != '#') {
    return InvalidArgumentError(
        "there is more after the quote: a value that holds one kind of quotes stands in the other");
  }
  return text.substr(1, end - 1);
}

}  // namespace

StatusOr<std::vector<ConfigEntry>> ParseConfig(std::istream& text) {
  std::vector<ConfigEntry> entries;
  std::string line;
  for (int number = 1; std::getline(text, line); ++number) {
    const auto refuse = [&](std::string_view why) {
      return InvalidArgumentError(fmt::format("configuration, line {}: {}", number, why));
    };
    const std::string_view trimmed = Trim(line);
    if (trimmed.empty() || trimmed.front() == '#') continue;
    const size_t equals = trimmed.find('=');
    const std::string_view key = Trim(trimmed.substr(0, equals));
    if (equals == std::string_view::npos || key.empty()) {
      return refuse(fmt::format("{} is not of the form key = value", QuoteForMessage(trimmed)));
    }
    const bool twice = std::any_of(entries.begin(), entries.end(),
                                   [&](const ConfigEntry& entry) { return entry.key == key; });
    if (twice) return refuse(fmt::format("{} is set a second time", QuoteForMessage(key)));
    const StatusOr<std::string_view> value = ParseValue(trimmed.substr(equals + 1));
    if (!value.ok()) return refuse(Message(value.status()));
    entries.push_back({std::string(key), std::string(*value)});
  }
  return entries;
}

}  // namespace tensorbroker
