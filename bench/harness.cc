#include "bench/harness.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tensorbroker/base/units.h"

namespace tensorbroker::bench {
namespace {

constexpr double kTrustedSpread = 0.25;

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double Spread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t outliers = values.size() / 10;  // at each end
  const double median = Median(values);
  return median > 0 ? (values[values.size() - 1 - outliers] - values[outliers]) / median : 0;
}

std::string Figure(double value) {
  return fmt::format("{:.{}f}", value, value >= 1000 ? 0 : value >= 100 ? 1 : value >= 1 ? 2 : 3);
}

}  // namespace

StatusOr<Row> Compare(const Options& options, Question question, const Measure& ours, const Measure& floor) {
  std::vector<double> our_values, floor_values, ratios;
  for (int round = -1; round < options.rounds(); ++round) {
    double our_value = 0, floor_value = 0;
    if (round % 2 == 0) {
      TB_ASSIGN_OR_RETURN(our_value, ours());
      TB_ASSIGN_OR_RETURN(floor_value, floor());
    } else {
      TB_ASSIGN_OR_RETURN(floor_value, floor());
      TB_ASSIGN_OR_RETURN(our_value, ours());
    }
    if (round < 0) continue;  // caches, connections and page tables are as later from here on
    our_values.push_back(our_value);
    floor_values.push_back(floor_value);
    ratios.push_back(our_value / floor_value);
  }
  Row row{
      .name = question.name, .unit = question.unit, .value = Median(our_values), .against = question.against};
  row.against_value = Median(floor_values);
  row.ratio = Median(ratios);
  row.budget = question.budget;
  row.spread = Spread(our_values);
  row.against_spread = Spread(floor_values);
  row.note = question.note;
  if (row.budget && row.against_spread <= kTrustedSpread) {
    row.holds = *row.ratio <= *row.budget && (!question.value_limit || row.value <= *question.value_limit);
  }
  return row;
}

StatusOr<Row> Absolute(const Options& options, Question question, const Measure& ours) {
  std::vector<double> values;
  for (int round = -1; round < options.rounds(); ++round) {
    TB_ASSIGN_OR_RETURN(const double value, ours());
    if (round >= 0) values.push_back(value);
  }
  Row row{.name = question.name, .unit = question.unit, .value = Median(values)};
  row.budget = question.budget;
  row.spread = Spread(values);
  row.note = question.note;
  if (row.budget) row.holds = row.value <= *row.budget;
  return row;
}

int64_t NowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

StatusOr<std::vector<int64_t>> Time(int64_t count, const std::function<Status()>& operation,
                                    const std::function<Status()>& between) {
  std::vector<int64_t> times;
  times.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const int64_t start = NowNs();
    TB_RETURN_IF_ERROR(operation());
    times.push_back(NowNs() - start);
    if (between) TB_RETURN_IF_ERROR(between());
  }
  std::sort(times.begin(), times.end());
  return times;
}

int64_t Quantile(const std::vector<int64_t>& sorted, double quantile) {
  const auto index = static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1) + 0.5);
  return sorted[std::min(index, sorted.size() - 1)];
}

StatusOr<double> MedianMicros(int64_t count, const std::function<Status()>& operation,
                              const std::function<Status()>& between) {
  TB_ASSIGN_OR_RETURN(const std::vector<int64_t> times, Time(count, operation, between));
  return static_cast<double>(Quantile(times, 0.5)) / 1000;
}

void Pin(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(static_cast<unsigned>(core) % static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)), &cores);
  sched_setaffinity(0, sizeof(cores), &cores);
}

std::string Headings() {
  return fmt::format("{:<24} {:>12} {:>12} {:>7} {:>7} {:>6}  {:<15} {}", "name", "ours", "floor", "ratio",
                     "budget", "holds", "spread", "against");
}

std::string ToLine(const Row& row) {
  return fmt::format(
      "{:<24} {:>12} {:>12} {:>7} {:>7} {:>6}  {:<15} {}{}", row.name, Figure(row.value) + " " + row.unit,
      row.against_value ? Figure(*row.against_value) + " " + row.unit : "-",
      row.ratio ? fmt::format("{:.2f}", *row.ratio) : "-",
      row.budget ? fmt::format("{:g}", *row.budget) : "-",
      !row.holds   ? "-"
      : *row.holds ? "yes"
                   : "NO",
      row.against_value ? fmt::format("{:.0f} % / {:.0f} %", row.spread * 100, row.against_spread * 100)
                        : fmt::format("{:.0f} %", row.spread * 100),
      row.against, row.note.empty() ? "" : (row.against.empty() ? "" : "; ") + row.note);
}

std::string ToJson(const std::vector<Row>& rows) {
  nlohmann::ordered_json document;
  document["machine"] = Machine();
  document["results"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    nlohmann::ordered_json entry;
    entry["name"] = row.name;
    entry["value"] = row.value;
    entry["unit"] = row.unit;
    entry["against"] = row.against.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(row.against);
    entry["against_value"] =
        row.against_value ? nlohmann::ordered_json(*row.against_value) : nlohmann::ordered_json();
    entry["ratio"] = row.ratio ? nlohmann::ordered_json(*row.ratio) : nlohmann::ordered_json();
    entry["budget"] = row.budget ? nlohmann::ordered_json(*row.budget) : nlohmann::ordered_json();
    entry["holds"] = row.holds ? nlohmann::ordered_json(*row.holds) : nlohmann::ordered_json();
    entry["spread"] = row.spread;
    entry["against_spread"] =
        row.against_value ? nlohmann::ordered_json(row.against_spread) : nlohmann::ordered_json();
    if (!row.note.empty()) entry["note"] = row.note;
    document["results"].push_back(std::move(entry));
  }
  return document.dump(2) + "\n";
}

std::string Machine() {
  std::string model = "unknown processor", memory;
  std::ifstream cpuinfo("/proc/cpuinfo"), meminfo("/proc/meminfo");
  for (std::string line; std::getline(cpuinfo, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      model = line.substr(line.find(": ") + 2);
  }
  for (std::string line; std::getline(meminfo, line);) {
    if (line.starts_with("MemTotal:")) memory = HumanBytes(std::stoll(line.substr(9)) * 1024);
  }
  utsname kernel{};
  uname(&kernel);
  return fmt::format("{}, {} cores, {}, {} {}", model, sysconf(_SC_NPROCESSORS_ONLN), memory, kernel.sysname,
                     kernel.release);
}

}  // namespace tensorbroker::bench
