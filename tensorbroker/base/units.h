// Bytes and durations as people write and read them.
#ifndef TENSORBROKER_BASE_UNITS_H_
#define TENSORBROKER_BASE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

// "512 B", "4.0 KiB", "1.5 GiB": three digits or so, binary units.
std::string HumanBytes(int64_t bytes);
// "850 us", "12 ms", "3.2 s", "4 min", "2 h", "5 d".
std::string HumanDuration(Duration duration);

// "37 %"; of nothing it is "0 %".
std::string HumanPercent(int64_t part, int64_t whole);

// "4096", "64KiB", "64K", "1.5 GiB", "2GB": K, M, G and T with or without iB are powers of 1,024; KB, MB, GB,
// TB of 1,000. Case does not matter.
// kInvalidArgument  anything else, a negative number, or one over 2^63 - 1
StatusOr<int64_t> ParseBytes(std::string_view text);
// "250ms", "5s", "1.5 s", "10min", "2h"; a bare number is seconds; "forever" is kForever.
// kInvalidArgument  anything else
StatusOr<Duration> ParseDuration(std::string_view text);

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_UNITS_H_
