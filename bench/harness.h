// How a benchmark is measured: rounds that alternate ours and the floor, medians, spreads, one row a question.
//
// Not thread-safe. Every figure of a row is in the row's unit.
#ifndef TENSORBROKER_BENCH_HARNESS_H_
#define TENSORBROKER_BENCH_HARNESS_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tensorbroker/base/status.h"

namespace tensorbroker::bench {

struct Options {
  bool quick = false;
  // Rounds of each row; the ratio is the median of the rounds' ratios.
  int rounds() const { return quick ? 3 : 11; }
  // `full`, or a tenth of it in a quick run: operations in a round.
  int64_t count(int64_t full) const { return quick ? (full + 9) / 10 : full; }
};

// A question's answer.
struct Row {
  std::string name;
  std::string unit;  // "ns", "us", "ms", "s" or "B"
  double value = 0;  // median over the rounds
  std::string against;
  std::optional<double> against_value;
  std::optional<double> ratio;   // ours / against
  std::optional<double> budget;  // of the ratio; of the value where nothing is against
  std::optional<bool> holds;     // nothing: no budget, or a floor that spreads over 25 %
  double spread = 0;             // (ninth decile - first decile) / median of the rounds' values
  double against_spread = 0;
  std::string note;
};

// What a row is about, before it is measured.
struct Question {
  std::string name;
  std::string unit;
  std::string against;                // empty: an absolute budget
  std::optional<double> budget;       // as Row::budget
  std::optional<double> value_limit;  // beside a ratio: what the value may be at most
  std::string note;
};

using Measure = std::function<StatusOr<double>()>;  // one round, in the question's unit

// Alternates `ours` and `floor` (which goes first changes each round), after one round of each that is not counted.
StatusOr<Row> Compare(const Options& options, Question question, const Measure& ours, const Measure& floor);
// Without a floor.
StatusOr<Row> Absolute(const Options& options, Question question, const Measure& ours);

int64_t NowNs();

// Nanoseconds of each of `count` calls of `operation`, sorted. `between` runs after each, untimed.
StatusOr<std::vector<int64_t>> Time(int64_t count, const std::function<Status()>& operation,
                                    const std::function<Status()>& between = nullptr);
// The `quantile` (0 to 1) of sorted values.
int64_t Quantile(const std::vector<int64_t>& sorted, double quantile);
// Time's median, in microseconds.
StatusOr<double> MedianMicros(int64_t count, const std::function<Status()>& operation,
                              const std::function<Status()>& between = nullptr);

// Pins the calling thread, and what it starts from now on, to one core.
void Pin(int core);
inline constexpr int kClientCore = 0;
inline constexpr int kBrokerCore = 1;  // the broker's, and the floor's server's

// One line of the table, and the whole as JSON.
std::string ToLine(const Row& row);
std::string Headings();
std::string ToJson(const std::vector<Row>& rows);
// "Intel(R) Xeon(R) Processor, 2 cores, 23 GiB, Linux 6.1".
std::string Machine();

}  // namespace tensorbroker::bench

#endif  // TENSORBROKER_BENCH_HARNESS_H_
