// The rule for names: path-like keys such as "train/batch/0".
#ifndef TENSORBROKER_BASE_NAME_H_
#define TENSORBROKER_BASE_NAME_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

inline constexpr size_t kMaxNameBytes = 255;

// A good name is UTF-8 of 1 to kMaxNameBytes bytes, without control characters, in parts joined by single
// '/'; no part is empty, "." or "..".
// kInvalidArgument  the rule that `name` breaks; the text shows the name with control characters escaped
Status CheckName(std::string_view name);

// What good names may begin with: "", "train/ba".
// kInvalidArgument  as CheckName
Status CheckNamePrefix(std::string_view prefix);

// True where `text` holds a control character: C0, DEL or C1 (U+0080 to U+009F).
bool HasControlCharacters(std::string_view text);

// `text` for a message or a log line: control characters, quotes and broken UTF-8 as \xNN, cut after `keep_bytes`.
std::string QuoteForMessage(std::string_view text, size_t keep_bytes = 80);

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_NAME_H_
