#include "tensorbroker/base/name.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "tensorbroker/base/utf8.h"

namespace tensorbroker {
namespace {

// C0 controls, DEL and the C1 controls (U+0080 to U+009F).
bool IsControl(CodePoint c) { return c.bytes > 0 && (c.value < 0x20 || (c.value >= 0x7F && c.value < 0xA0)); }

}  // namespace

bool HasControlCharacters(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const CodePoint c = DecodeUtf8(text.substr(at));
    if (IsControl(c)) return true;
    at += std::max<size_t>(c.bytes, 1);
  }
  return false;
}

std::string QuoteForMessage(std::string_view text, size_t keep_bytes) {
  std::string quoted = "\"";
  size_t at = 0;
  while (at < text.size() && at < keep_bytes) {
    const CodePoint c = DecodeUtf8(text.substr(at));
    const std::string_view character = text.substr(at, std::max<size_t>(c.bytes, 1));
    if (c.bytes == 0 || IsControl(c) || character == "\"" || character == "\\") {
      for (const char c : character) quoted += fmt::format("\\x{:02x}", static_cast<uint8_t>(c));
    } else {
      quoted += character;
    }
    at += character.size();
  }
  if (at < text.size()) quoted += "...";
  return quoted + "\"";
}

Status CheckNamePrefix(std::string_view prefix) {
  const auto refuse = [&](std::string_view why) {
    return InvalidArgumentError(fmt::format("name {} {}", QuoteForMessage(prefix), why));
  };
  if (prefix.size() > kMaxNameBytes) {
    return refuse(fmt::format("has {} bytes; at most {} are allowed", prefix.size(), kMaxNameBytes));
  }
  for (size_t at = 0; at < prefix.size();) {
    const CodePoint c = DecodeUtf8(prefix.substr(at));
    if (c.bytes == 0) return refuse(fmt::format("is not UTF-8 at byte {}", at));
    if (IsControl(c)) return refuse(fmt::format("has a control character at byte {}", at));
    at += c.bytes;
  }
  return OkStatus();
}

Status CheckName(std::string_view name) {
  if (name.empty()) return InvalidArgumentError("a name must not be empty");
  TB_RETURN_IF_ERROR(CheckNamePrefix(name));
  const auto refuse = [&](std::string_view why) {
    return InvalidArgumentError(fmt::format("name {} {}", QuoteForMessage(name), why));
  };
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
