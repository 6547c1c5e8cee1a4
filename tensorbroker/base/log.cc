#include "tensorbroker/base/log.h"

#include <poll.h>
#include <pthread.h>
#include <spdlog/sinks/ansicolor_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <mutex>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/utf8.h"

namespace tensorbroker {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      return spdlog::level::off;
  }
  return spdlog::level::off;
}

// What a pipe that polls as writable takes at once (PIPE_BUF), less the time stamp and the level.
constexpr size_t kMaxLineBytes = 4000;

// False where a write to stderr would wait: nobody reads the pipe, or the terminal is held.
bool StderrTakesALine() {
  pollfd out{STDERR_FILENO, POLLOUT, 0};
  return poll(&out, 1, 0) == 1 && out.revents == POLLOUT;
}

// One line at a time, and none across a fork: a child must not inherit the lock while another thread holds
// it, so the lock is ours (the sink is spdlog's unlocked one) and is taken around fork(). Leaked: threads may
// log during exit.
class LockedLogger {
 public:
  static LockedLogger& Get() {
    static LockedLogger* const logger = new LockedLogger;
    return *logger;
  }

  void set_level(LogLevel level) {
    std::lock_guard lock(mutex_);
    logger_.set_level(ToSpdlog(level));
  }

  void Write(LogLevel level, std::string_view line) {
    std::lock_guard lock(mutex_);
    if (!logger_.should_log(ToSpdlog(level))) return;
    // The broker serves on, and the rest of the log comes when somebody reads again.
    if (lost_ > 0 && StderrTakesALine()) {
      logger_.warn("log_lines_lost count={} cause=\"stderr took none\"", lost_);
      lost_ = 0;
    }
    if (lost_ > 0 || !StderrTakesALine()) {
      ++lost_;
      return;
    }
    line = Utf8Prefix(line, kMaxLineBytes);
    logger_.log(ToSpdlog(level), spdlog::string_view_t(line.data(), line.size()));
  }

 private:
  LockedLogger() : logger_("tensorbroker", std::make_shared<spdlog::sinks::ansicolor_stderr_sink_st>()) {
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%f%z %^%l%$ %v");
    logger_.set_level(spdlog::level::warn);
    pthread_atfork([] { Get().mutex_.lock(); }, [] { Get().mutex_.unlock(); }, [] { Get().mutex_.unlock(); });
  }

  std::mutex mutex_;
  spdlog::logger logger_;
  uint64_t lost_ = 0;  // lines since stderr took the last one
};

// A peer's text may hold what a terminal obeys: control characters, C1 too, and bytes that are no UTF-8.
bool NeedsQuotes(std::string_view value) {
  if (value.empty() || value.find_first_of(" \"\\=") != std::string_view::npos) return true;
  if (HasControlCharacters(value)) return true;
  for (size_t at = 0; at < value.size();) {
    const CodePoint c = DecodeUtf8(value.substr(at));
    if (c.bytes == 0) return true;
    at += c.bytes;
  }
  return false;
}

}  // namespace

void SetLogLevel(LogLevel level) { LockedLogger::Get().set_level(level); }

StatusOr<LogLevel> ParseLogLevel(std::string_view text) {
  if (text == "debug") return LogLevel::kDebug;
  if (text == "info") return LogLevel::kInfo;
  if (text == "warning") return LogLevel::kWarning;
  if (text == "error") return LogLevel::kError;
  if (text == "off") return LogLevel::kOff;
  return InvalidArgumentError("log level " + QuoteForMessage(text) +
                              " is none of debug, info, warning, error, off");
}

void Log(LogLevel level, std::string_view event, std::initializer_list<LogField> fields) {
  std::string line(event);
  for (const LogField& field : fields) {
    line += ' ';
    line += field.key;
    line += '=';
    line += NeedsQuotes(field.value) ? QuoteForMessage(field.value, kMaxMessageBytes) : field.value;
  }
  LockedLogger::Get().Write(level, line);
}

}  // namespace tensorbroker
