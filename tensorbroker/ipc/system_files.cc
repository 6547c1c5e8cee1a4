#include "tensorbroker/ipc/system_files.h"

#include <fstream>
#include <iterator>

#include "tensorbroker/base/text.h"

namespace tensorbroker {

std::optional<std::string> ReadSystemFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::optional<int64_t> ReadNumber(const std::string& path) {
  const std::optional<std::string> text = ReadSystemFile(path);
  return text ? LeadingNumber(*text) : std::nullopt;
}

std::optional<int64_t> NumberOfKey(std::string_view text, std::string_view key) {
  std::optional<int64_t> number;
  ForEachLine(text, [&](std::string_view line) {
    if (number || !line.starts_with(key)) return;
    line.remove_prefix(key.size());
    if (line.starts_with(':')) line.remove_prefix(1);
    if (line.starts_with(' ') || line.starts_with('\t')) number = LeadingNumber(line);
  });
  return number;
}

std::string ChosenWord(std::string_view text) {
  const size_t begin = text.find('[');
  if (begin == std::string_view::npos) return "";
  const size_t end = text.find(']', begin);
  return end == std::string_view::npos ? "" : std::string(text.substr(begin + 1, end - begin - 1));
}

std::string ReadChosenWord(const std::string& path) { return ChosenWord(ReadSystemFile(path).value_or("")); }

}  // namespace tensorbroker
