#include "tensorbroker/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "tensorbroker/base/name.h"

namespace tensorbroker {
namespace {

struct Quantity {
  double number;
  std::string unit;  // lower case, without spaces
};

// "1.5 GiB" into 1.5 and "gib"; false when no number leads or it is not finite.
bool SplitQuantity(std::string_view text, Quantity& quantity) {
  const std::string copy(text);
  if (copy.empty() || !std::isdigit(static_cast<unsigned char>(copy[0]))) return false;
  char* end = nullptr;
  quantity.number = std::strtod(copy.c_str(), &end);
  if (!std::isfinite(quantity.number)) return false;
  for (; *end != '\0'; ++end) {
    if (*end != ' ') quantity.unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*end)));
  }
  return static_cast<size_t>(end - copy.c_str()) == copy.size();
}

template <size_t N>
double FindUnit(const std::array<std::pair<const char*, double>, N>& units, const std::string& unit) {
  const auto found = std::find_if(units.begin(), units.end(), [&](const auto& u) { return unit == u.first; });
  return found == units.end() ? 0 : found->second;
}

constexpr double kKi = 1024;
constexpr std::array<std::pair<const char*, double>, 14> kByteUnits = {{{"", 1},
                                                                        {"b", 1},
                                                                        {"k", kKi},
                                                                        {"kib", kKi},
                                                                        {"kb", 1e3},
                                                                        {"m", kKi* kKi},
                                                                        {"mib", kKi* kKi},
                                                                        {"mb", 1e6},
                                                                        {"g", kKi* kKi* kKi},
                                                                        {"gib", kKi* kKi* kKi},
                                                                        {"gb", 1e9},
                                                                        {"t", kKi* kKi* kKi* kKi},
                                                                        {"tib", kKi* kKi* kKi* kKi},
                                                                        {"tb", 1e12}}};
constexpr std::array<std::pair<const char*, double>, 8> kTimeUnits = {{{"", 1e9},
                                                                       {"ns", 1},
                                                                       {"us", 1e3},
                                                                       {"ms", 1e6},
                                                                       {"s", 1e9},
                                                                       {"min", 60e9},
                                                                       {"h", 3600e9},
                                                                       {"d", 86400e9}}};

// The largest double below 2^63.
constexpr double kMaxExact = 9223372036854774784.0;

}  // namespace

std::string HumanBytes(int64_t bytes) {
  if (bytes > -1024 && bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "B";
  for (const char* next : {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}) {
    if (std::fabs(value) < 1023.95) break;
    value /= 1024;
    unit = next;
  }
  return fmt::format("{:.{}f} {}", value, std::fabs(value) < 99.95 ? 1 : 0, unit);
}

std::string HumanDuration(Duration duration) {
  if (duration == kForever) return "forever";
  const double ns = static_cast<double>(duration.count());
  const auto with = [&](double divisor, const char* unit) {
    const double value = ns / divisor;
    return fmt::format("{:.{}f} {}", value, value < 9.95 ? 1 : 0, unit);
  };
  if (ns < 1e3) return fmt::format("{} ns", duration.count());
  if (ns < 1e6) return with(1e3, "us");
  if (ns < 1e9) return with(1e6, "ms");
  if (ns < 120e9) return with(1e9, "s");
  if (ns < 7200e9) return fmt::format("{:.0f} min", ns / 60e9);
  if (ns < 2 * 86400e9) return fmt::format("{:.0f} h", ns / 3600e9);
  return fmt::format("{:.0f} d", ns / 86400e9);
}

std::string HumanPercent(int64_t part, int64_t whole) {
  return fmt::format("{:.0f} %",
                     whole <= 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

StatusOr<int64_t> ParseBytes(std::string_view text) {
  Quantity quantity;
  const bool split = SplitQuantity(text, quantity);
  const double factor = split ? FindUnit(kByteUnits, quantity.unit) : 0;
  if (factor == 0) {
    return InvalidArgumentError(QuoteForMessage(text) + " is not a size: write 4096, 64KiB, 1.5GiB or 2GB");
  }
  if (quantity.unit.empty() || quantity.unit == "b") {  // exact up to 2^63 - 1
    errno = 0;
    char* end = nullptr;
    const std::string copy(text);
    const long long exact = std::strtoll(copy.c_str(), &end, 10);
    if (errno == 0 && (*end == '\0' || *end == ' ' || *end == 'b' || *end == 'B')) return int64_t{exact};
  }
  const double bytes = quantity.number * factor;
  if (bytes > kMaxExact) return InvalidArgumentError(QuoteForMessage(text) + " is over 2^63 - 1 bytes");
  return static_cast<int64_t>(bytes);
}

StatusOr<Duration> ParseDuration(std::string_view text) {
  if (text == "forever") return kForever;
  Quantity quantity;
  const bool split = SplitQuantity(text, quantity);
  const double factor = split ? FindUnit(kTimeUnits, quantity.unit) : 0;
  if (factor == 0) {
    return InvalidArgumentError(QuoteForMessage(text) + " is not a time: write 250ms, 5s, 10min or forever");
  }
  const double ns = quantity.number * factor;
  if (ns > kMaxExact)
    return InvalidArgumentError(QuoteForMessage(text) + " is over 292 years; write forever");
  return Duration(static_cast<int64_t>(ns));
}

}  // namespace tensorbroker
