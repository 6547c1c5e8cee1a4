#include "tensorbroker/cli/console.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

int print_errno = 0;  // of the first write to stdout that failed

bool HasText(const char* value) { return value != nullptr && *value != '\0'; }

// $COLUMNS where the shell exports it, else what the terminal says.
int TerminalColumns(int fd) {
  if (const char* columns = std::getenv("COLUMNS"); HasText(columns)) {
    if (const int value = std::atoi(columns); value >= 20) return value;
  }
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col >= 20) return size.ws_col;
  return 80;
}

}  // namespace

Console Console::Detect(ColorMode mode) {
  Console console;
  if (isatty(STDOUT_FILENO) == 1) console.width = TerminalColumns(STDOUT_FILENO);
  if (isatty(STDERR_FILENO) == 1) {
    console.progress = true;
    console.progress_width = TerminalColumns(STDERR_FILENO);
  }
  const char* term = std::getenv("TERM");
  const bool dumb = term == nullptr || std::strcmp(term, "dumb") == 0;
  console.color = mode == ColorMode::kAlways || (mode == ColorMode::kAuto && console.width > 0 && !dumb &&
                                                 !HasText(std::getenv("NO_COLOR")));
  return console;
}

std::string Console::Paint(Style style, std::string_view text) const {
  if (!color || style == Style::kPlain || text.empty()) return std::string(text);
  static constexpr const char* kCodes[] = {"0", "1", "2", "31", "32", "33", "36"};
  return fmt::format("\x1b[{}m{}\x1b[0m", kCodes[static_cast<int>(style)], text);
}

void Print(std::string_view text) {
  if (print_errno == 0 && std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    print_errno = errno;
}

void PrintError(std::string_view text) {
  std::fflush(stdout);
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void PrintFailure(std::string_view command, std::string_view code, std::string_view message) {
  PrintError(
      fmt::format("tensorctl: {}{}{}: {}\n", command, command.empty() ? "" : ": ", code, Printable(message)));
}

Status FlushStdout() {
  if (std::fflush(stdout) != 0 && print_errno == 0) print_errno = errno;
  if (print_errno == 0) return OkStatus();
  return UnavailableError(fmt::format("stdout cannot be written: {}", std::strerror(print_errno)));
}

}  // namespace tensorbroker::cli
