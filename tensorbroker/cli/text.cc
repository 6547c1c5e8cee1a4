#include "tensorbroker/cli/text.h"

#include <fmt/format.h>
#include <locale.h>
#include <wchar.h>

#include <cstdint>

#include "tensorbroker/base/utf8.h"

namespace tensorbroker::cli {
namespace {

// Characters that a terminal acts on, or that hide: C0, DEL, C1, soft hyphen, zero-width and direction marks, separators,
// tags, private use and non-characters.
bool IsUnsafe(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || c == 0x61C || c == 0x180E ||
         (c >= 0x200B && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) ||
         (c >= 0xE000 && c <= 0xF8FF) || c == 0xFEFF || (c >= 0xFFF0 && c <= 0xFFFB) ||
         (c & 0xFFFE) == 0xFFFE || c >= 0xE0000;
}

// wcwidth(3) reads the thread's locale; the user's own may know no UTF-8.
int Columns(uint32_t c) {
  static const locale_t kUtf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (c < 0x7F) return 1;
  if (kUtf8 == nullptr) return 1;
  const locale_t before = uselocale(kUtf8);
  const int columns = wcwidth(static_cast<wchar_t>(c));
  uselocale(before);
  return columns < 0 ? 1 : columns;
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string printable;
  printable.reserve(text.size());
  while (!text.empty()) {
    const CodePoint c = DecodeUtf8(text);
    const size_t taken = c.bytes == 0 ? 1 : c.bytes;
    if (c.bytes == 0) {
      printable += fmt::format("\\x{:02x}", static_cast<uint8_t>(text[0]));
    } else if (!IsUnsafe(c.value)) {
      printable += text.substr(0, taken);
    } else if (c.value == '\n') {
      printable += "\\n";
    } else if (c.value == '\t') {
      printable += "\\t";
    } else if (c.value < 0x80) {
      printable += fmt::format("\\x{:02x}", c.value);
    } else if (c.value <= 0xFFFF) {
      printable += fmt::format("\\u{:04x}", c.value);
    } else {
      printable += fmt::format("\\U{:08x}", c.value);
    }
    text.remove_prefix(taken);
  }
  return printable;
}

int DisplayWidth(std::string_view text) {
  int columns = 0;
  while (!text.empty()) {
    const CodePoint c = DecodeUtf8(text);
    columns += c.bytes == 0 ? 1 : Columns(c.value);
    text.remove_prefix(c.bytes == 0 ? 1 : c.bytes);
  }
  return columns;
}

std::string Cut(std::string_view text, int columns) {
  if (DisplayWidth(text) <= columns) return std::string(text);
  std::string kept;
  int used = 1;  // of the ellipsis
  while (!text.empty()) {
    const CodePoint c = DecodeUtf8(text);
    const size_t bytes = c.bytes == 0 ? 1 : c.bytes;
    used += c.bytes == 0 ? 1 : Columns(c.value);
    if (used > columns) break;
    kept += text.substr(0, bytes);
    text.remove_prefix(bytes);
  }
  return kept + "…";
}

std::vector<std::string> Wrap(std::string_view text, int columns) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    const size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    if (!line.empty() && DisplayWidth(line) + 1 + DisplayWidth(word) > columns) {
      lines.push_back(std::move(line));
      line.clear();
    }
    if (!line.empty()) line += ' ';
    line += word;
  }
  if (!line.empty() || lines.empty()) lines.push_back(std::move(line));
  return lines;
}

}  // namespace tensorbroker::cli
