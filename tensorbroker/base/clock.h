// Time as a dependency, so that tests need not sleep.
#ifndef TENSORBROKER_BASE_CLOCK_H_
#define TENSORBROKER_BASE_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace tensorbroker {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::steady_clock::time_point;  // CLOCK_MONOTONIC: one scale for all processes

inline constexpr Duration kForever = Duration::max();

// Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  // Nanoseconds since the Unix epoch, for people to read; it may jump.
  virtual int64_t UnixNanos() const = 0;

  // The machine's clock; lives as long as the process.
  static const Clock& Real();
};

// `now + timeout` without overflow: kForever and all that passes the end gives TimePoint::max().
TimePoint DeadlineAfter(TimePoint now, Duration timeout);

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_CLOCK_H_
