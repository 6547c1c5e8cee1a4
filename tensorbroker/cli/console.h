// Where tensorctl writes: results on stdout, errors and progress on stderr.
#ifndef TENSORBROKER_CLI_CONSOLE_H_
#define TENSORBROKER_CLI_CONSOLE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"

namespace tensorbroker::cli {

enum class ColorMode : uint8_t { kAuto, kAlways, kNever };
enum class Style : uint8_t { kPlain, kBold, kDim, kRed, kGreen, kYellow, kCyan };

// What the two streams are. Plain value.
struct Console {
  bool color = false;     // stdout takes colours
  int width = 0;          // columns of stdout; 0: no terminal, no limit
  bool progress = false;  // stderr is a terminal
  int progress_width = 80;

  // Looks at the streams. kAuto is colour on a terminal, unless $NO_COLOR is set or $TERM is "dumb".
  static Console Detect(ColorMode mode);

  // `text` in `style`, or as it is without colour.
  std::string Paint(Style style, std::string_view text) const;
};

// To stdout; a failure is kept for FlushStdout.
void Print(std::string_view text);
// To stderr, as one write.
void PrintError(std::string_view text);
// The line on stderr of a failure: "tensorctl: `command`: `code`: `message`".
void PrintFailure(std::string_view command, std::string_view code, std::string_view message);
// kUnavailable  something printed could not be written: the cause
Status FlushStdout();

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_CONSOLE_H_
