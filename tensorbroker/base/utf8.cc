#include "tensorbroker/base/utf8.h"

namespace tensorbroker {

CodePoint DecodeUtf8(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return {first, 1};
  size_t bytes = 0;
  uint32_t value = 0;
  uint32_t least = 0;
  if (first >= 0xC2 && first <= 0xDF) {
    bytes = 2, value = first & 0x1Fu, least = 0x80;
  } else if (first >= 0xE0 && first <= 0xEF) {
    bytes = 3, value = first & 0x0Fu, least = 0x800;
  } else if (first >= 0xF0 && first <= 0xF4) {
    bytes = 4, value = first & 0x07u, least = 0x10000;
  } else {
    return {};
  }
  if (text.size() < bytes) return {};
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (byte(i) & 0x3Fu);
  }
  if (value < least || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return {};
  return {value, bytes};
}

}  // namespace tensorbroker
