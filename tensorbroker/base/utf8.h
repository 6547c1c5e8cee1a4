// UTF-8 by characters, as RFC 3629 has it: no overlong forms, no surrogates, nothing past U+10FFFF.
#ifndef TENSORBROKER_BASE_UTF8_H_
#define TENSORBROKER_BASE_UTF8_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tensorbroker {

struct CodePoint {
  uint32_t value = 0;
  size_t bytes = 0;  // 0: no UTF-8 begins here
};

// The character at the start of `text`, which is not empty.
CodePoint DecodeUtf8(std::string_view text);

// The longest prefix of at most `max_bytes` that cuts no character.
inline std::string_view Utf8Prefix(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  size_t keep = max_bytes;
  while (keep > 0 && (static_cast<unsigned char>(text[keep]) & 0xC0) == 0x80) --keep;
  return text.substr(0, keep);
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_UTF8_H_
