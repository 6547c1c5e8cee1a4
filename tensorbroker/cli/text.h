// Text of other processes made safe to print, and measured as a terminal shows it.
//
// Names, labels and command lines come from anybody who may open a session: an escape sequence in one must not reach the
// operator's terminal, nor a newline break a table.
#ifndef TENSORBROKER_CLI_TEXT_H_
#define TENSORBROKER_CLI_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

namespace tensorbroker::cli {

// `text` with control characters, line and paragraph separators, direction overrides, other invisible characters and
// broken UTF-8 as \n, \t, \xNN or \uNNNN. All else stays, so a usual name can be copied from the screen.
std::string Printable(std::string_view text);

// Columns that `text` (Printable) takes: 2 for wide characters, 0 for combining ones.
int DisplayWidth(std::string_view text);

// The longest prefix of `text` that fits into `columns` (>= 1), with "…" at its end where something was cut.
std::string Cut(std::string_view text, int columns);

// `text` broken at spaces into lines of at most `columns`; a longer word has a line of its own.
std::vector<std::string> Wrap(std::string_view text, int columns);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_TEXT_H_
