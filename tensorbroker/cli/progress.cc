#include "tensorbroker/cli/progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/units.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

constexpr Duration kFirstAfter = std::chrono::milliseconds(500);
constexpr Duration kEvery = std::chrono::milliseconds(100);

}  // namespace

std::string ProgressLine(std::string_view what, int64_t done_bytes, int64_t total_bytes, Duration elapsed,
                         int columns) {
  const double part =
      total_bytes <= 0
          ? 1.0
          : std::clamp(static_cast<double>(done_bytes) / static_cast<double>(total_bytes), 0.0, 1.0);
  const double seconds = std::max(1e-9, std::chrono::duration<double>(elapsed).count());
  const auto rate = static_cast<int64_t>(static_cast<double>(done_bytes) / seconds);
  std::string tail = fmt::format("{:3.0f} %  {}/s", part * 100, HumanBytes(rate));
  if (part > 0 && part < 1) {
    const double left_ns = seconds * (1 - part) / part * 1e9;
    tail += fmt::format("  {} left", HumanDuration(Duration(static_cast<int64_t>(std::min(left_ns, 9e18)))));
  }
  const int room = columns - 1 - DisplayWidth(tail) - 4;
  const std::string head = Cut(Printable(what), std::max(1, std::min(room / 2, 40)));
  const int bar = std::clamp(room - DisplayWidth(head) - 2, 0, 40);
  if (bar < 5) return Cut(tail, std::max(1, columns - 1));
  const int full = static_cast<int>(part * bar);
  return fmt::format("{}  [{:#>{}}{:.>{}}]  {}", head, "", full, "", bar - full, tail);
}

Progress::Progress(const Console& console, std::string what)
    : console_(console), what_(std::move(what)), start_(Clock::Real().Now()), next_(start_ + kFirstAfter) {}

Progress::~Progress() {
  if (drawn_) PrintError("\r\x1b[K");
}

void Progress::Update(int64_t done_bytes, int64_t total_bytes) {
  if (!console_.progress) return;
  const TimePoint now = Clock::Real().Now();
  if (now < next_) return;
  next_ = now + kEvery;
  drawn_ = true;
  PrintError(fmt::format(
      "\r{}\x1b[K", ProgressLine(what_, done_bytes, total_bytes, now - start_, console_.progress_width)));
}

}  // namespace tensorbroker::cli
