#include "tensorbroker/base/clock.h"

namespace tensorbroker {
namespace {

class RealClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  int64_t UnixNanos() const override {
    return std::chrono::duration_cast<Duration>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
};

}  // namespace

const Clock& Clock::Real() {
  static const RealClock* const clock = new RealClock;  // leaked: threads may ask for the time during exit
  return *clock;
}

TimePoint DeadlineAfter(TimePoint now, Duration timeout) {
  if (timeout >= TimePoint::max() - now) return TimePoint::max();
  return now + timeout;
}

}  // namespace tensorbroker
