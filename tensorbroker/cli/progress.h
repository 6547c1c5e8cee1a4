// A progress bar on a terminal's stderr, for what takes longer than a glance.
#ifndef TENSORBROKER_CLI_PROGRESS_H_
#define TENSORBROKER_CLI_PROGRESS_H_

#include <cstdint>
#include <string>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/cli/console.h"

namespace tensorbroker::cli {

// One state of the bar in `columns`: "put digits.npy  [#####.....]  52 %  1.2 GiB/s  2.1 s left". Pure.
std::string ProgressLine(std::string_view what, int64_t done_bytes, int64_t total_bytes, Duration elapsed,
                         int columns);

// Draws nothing where stderr is no terminal, nothing in the first half second, and wipes its line when destroyed.
// Not thread-safe.
class Progress {
 public:
  Progress(const Console& console, std::string what);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Update(int64_t done_bytes, int64_t total_bytes);

 private:
  const Console console_;
  const std::string what_;
  const TimePoint start_;
  TimePoint next_;
  bool drawn_ = false;
};

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_PROGRESS_H_
