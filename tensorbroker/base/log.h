// Structured log lines on stderr: a level, an event, and key=value pairs. spdlog stays behind this header.
//
// The broker logs; client libraries only warn (their stderr belongs to the user's program).
#ifndef TENSORBROKER_BASE_LOG_H_
#define TENSORBROKER_BASE_LOG_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// One value of a log line: text is quoted where it holds spaces or quotes.
struct LogField {
  LogField(std::string_view key, std::string_view value) : key(key), value(value) {}
  LogField(std::string_view key, const char* value) : key(key), value(value) {}
  LogField(std::string_view key, const std::string& value) : key(key), value(value) {}
  LogField(std::string_view key, int value) : key(key), value(std::to_string(value)) {}
  LogField(std::string_view key, unsigned value) : key(key), value(std::to_string(value)) {}
  LogField(std::string_view key, long value) : key(key), value(std::to_string(value)) {}
  LogField(std::string_view key, unsigned long value) : key(key), value(std::to_string(value)) {}

  std::string_view key;
  std::string value;
};

// Lines below `level` are dropped. Process-wide; the default is kWarning. Thread-safe.
void SetLogLevel(LogLevel level);
// "debug", "info", "warning", "error" or "off".
// kInvalidArgument  any other text
StatusOr<LogLevel> ParseLogLevel(std::string_view text);
// Writes `level event key=value ...` to stderr as one line, cut at some 4,000 bytes. Never waits for whoever reads stderr: a
// line that it would not take is dropped, and their count is logged once it takes lines again. Thread-safe, in a forked
// child too.
void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields = {});

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_LOG_H_
