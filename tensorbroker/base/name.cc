#include "tensorbroker/base/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

namespace tensorbroker {
namespace {

// The length of the UTF-8 character at the start of `text` (RFC 3629: no overlong forms, no surrogates), 0 if
// none.
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto continues = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

// C0 controls, DEL and the C1 controls (U+0080 to U+009F).
bool IsControl(std::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;
}

}  // namespace

bool HasControlCharacters(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = std::max<size_t>(Utf8Length(text.substr(at)), 1);
    if (IsControl(text.substr(at, length))) return true;
    at += length;
  }
  return false;
}

std::string QuoteForMessage(std::string_view text, size_t keep_bytes) {
  std::string quoted = "\"";
  size_t at = 0;
  while (at < text.size() && at < keep_bytes) {
    const size_t length = Utf8Length(text.substr(at));
    const std::string_view character = text.substr(at, length == 0 ? 1 : length);
    if (length == 0 || IsControl(character) || character == "\"" || character == "\\") {
      for (const char c : character) quoted += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      quoted += character;
    }
    at += character.size();
  }
  if (at < text.size()) quoted += "...";
  return quoted + "\"";
}

Status CheckName(std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    return InvalidArgumentError(fmt::format("name {} {}", QuoteForMessage(name), why));
  };
  if (name.empty()) return InvalidArgumentError("a name must not be empty");
  if (name.size() > kMaxNameBytes) {
    return refuse(fmt::format("has {} bytes; at most {} are allowed", name.size(), kMaxNameBytes));
  }
  for (size_t at = 0; at < name.size();) {
    const size_t length = Utf8Length(name.substr(at));
    if (length == 0) return refuse(fmt::format("is not UTF-8 at byte {}", at));
    if (IsControl(name.substr(at, length)))
      return refuse(fmt::format("has a control character at byte {}", at));
    at += length;
  }
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = name.find('/', begin);
    if (end == std::string_view::npos) end = name.size();
    const std::string_view part = name.substr(begin, end - begin);
    if (part.empty()) return refuse("has an empty part: no '/' at the start, at the end or twice in a row");
    if (part == "." || part == "..") return refuse("has a part \".\" or \"..\"");
    begin = end + 1;
  }
  return OkStatus();
}

}  // namespace tensorbroker
