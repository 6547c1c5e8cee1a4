// K training ranks hold one data set and one weight buffer between them, and prove it by what the kernel counts. They
// train together: each writes its gradient into its own slot, then brings its part of the weights up to date.
//
// A Channel or a barrier would be the tool to meet with, where there is one; here ranks meet through names. Publishing a
// view says "this part is filled"; opening the name with a timeout waits for it.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "examples/common/children.h"
#include "examples/ranks/memory.h"
#include "examples/ranks/problem.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::examples {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);
constexpr int64_t kWeights = kInputs * kOutputs;

// What a rank tells the parent: a row of "ranks/reports", float64 [ranks, kReportColumns].
enum ReportColumn {
  kPid,
  kDataRss,
  kDataPss,
  kWeightsRss,
  kWeightsPss,
  kFirstError,
  kLastError,
  kReportColumns
};

class Rank {
 public:
  static StatusOr<Rank> Join(int rank, int ranks) {
    TB_ASSIGN_OR_RETURN(Client client, Client::Connect({.label = "rank " + std::to_string(rank)}));
    Rank self(std::move(client), rank, ranks);
    const OpenOptions writable{.writable = true};
    TB_ASSIGN_OR_RETURN(self.data_, self.client_.Open("ranks/data"));
    TB_ASSIGN_OR_RETURN(self.weights_, self.client_.Open("ranks/weights", writable));
    TB_ASSIGN_OR_RETURN(self.gradients_, self.client_.Open("ranks/gradients", writable));
    TB_ASSIGN_OR_RETURN(const Tensor reports, self.client_.Open("ranks/reports", writable));
    TB_ASSIGN_OR_RETURN(self.report_, reports.Select(0, rank));
    return self;
  }

  Status Measure() {
    // Reads everything once, so that each page of both buffers is in this process's page table.
    double sum = 0;
    for (int64_t i = 0; i < data_.numel(); ++i) sum += data_.data<const float>()[i];
    for (int64_t i = 0; i < kWeights; ++i) sum += weights_.data<const float>()[i];
    if (!(sum == sum)) return DataLossError("the data set holds no numbers");
    TB_RETURN_IF_ERROR(Meet("mapped", report_));
    TB_ASSIGN_OR_RETURN(const MappingMemory data, MemoryAt(data_.data_ptr()));
    TB_ASSIGN_OR_RETURN(const MappingMemory weights, MemoryAt(weights_.data_ptr()));
    double* report = report_.data<double>();
    report[kPid] = getpid();
    report[kDataRss] = static_cast<double>(data.rss_bytes);
    report[kDataPss] = static_cast<double>(data.pss_bytes);
    report[kWeightsRss] = static_cast<double>(weights.rss_bytes);
    report[kWeightsPss] = static_cast<double>(weights.pss_bytes);
    return Meet("measured", report_);
  }

  Status Train() {
    TB_ASSIGN_OR_RETURN(const Tensor slot, gradients_.Select(0, rank_));
    const int64_t first_input = kInputs * rank_ / ranks_;
    TB_ASSIGN_OR_RETURN(const Tensor part, weights_.Slice(0, first_input, kInputs * (rank_ + 1) / ranks_));
    for (int step = 0; step < kSteps; ++step) {
      const std::string stage = "step" + std::to_string(step);
      const float* rows = data_.data<const float>() + FirstRow(rank_, ranks_, step) * kColumns;
      const double squares = Gradient(rows, kRowsPerStep, weights_.data<const float>(), slot.data<float>());
      report_.data<double>()[step == 0 ? kFirstError : kLastError] = squares;
      TB_RETURN_IF_ERROR(Meet(stage + "/gradient", slot));
      Descend(gradients_.data<const float>(), ranks_, first_input * kOutputs, part.numel(),
              weights_.data<float>());
      TB_RETURN_IF_ERROR(Meet(stage + "/weights", part));
    }
    return OkStatus();
  }

 private:
  Rank(Client client, int rank, int ranks) : client_(std::move(client)), rank_(rank), ranks_(ranks) {}

  // Says that `filled` is this rank's part of `stage`, and returns when every rank has said so of its own.
  Status Meet(const std::string& stage, const Tensor& filled) {
    const std::string prefix = "ranks/" + stage + "/";
    TB_RETURN_IF_ERROR(filled.Publish(prefix + std::to_string(rank_)));
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      TB_RETURN_IF_ERROR(
          client_.Open(prefix + std::to_string(other), {.timeout = kPatience, .map = false}).status());
    }
    // Everyone is here, so everyone has seen this rank's name of the stage before.
    if (!last_.empty()) TB_RETURN_IF_ERROR(client_.Unpublish(last_));
    last_ = prefix + std::to_string(rank_);
    return OkStatus();
  }

  Client client_;
  int rank_;
  int ranks_;
  Tensor data_;       // float32 [kRows, kColumns]
  Tensor weights_;    // float32 [kInputs, kOutputs]
  Tensor gradients_;  // float32 [ranks, kInputs, kOutputs]
  Tensor report_;     // float64 [kReportColumns]
  std::string last_;
};

Status RunRank(int number, int ranks) {
  TB_ASSIGN_OR_RETURN(Rank rank, Rank::Join(number, ranks));
  TB_RETURN_IF_ERROR(rank.Measure());
  return rank.Train();
}

// The same training in one process, for comparison.
std::vector<float> TrainAlone(const float* data, int ranks) {
  std::vector<float> weights(kWeights), gradients(static_cast<size_t>(ranks) * kWeights);
  for (int step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      Gradient(data + FirstRow(rank, ranks, step) * kColumns, kRowsPerStep, weights.data(),
               gradients.data() + rank * kWeights);
    }
    Descend(gradients.data(), ranks, 0, kWeights, weights.data());
  }
  return weights;
}

// Prints what the ranks found; gives the sum of their PSS over both buffers.
int64_t PrintReports(const double* reports, int ranks) {
  std::printf("\n%6s %10s %14s %14s %13s %13s\n", "rank", "pid", "data set RSS", "data set PSS",
              "weights RSS", "weights PSS");
  double pss = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const double* report = reports + rank * kReportColumns;
    const auto human = [report](ReportColumn column) {
      return HumanBytes(static_cast<int64_t>(report[column]));
    };
    std::printf("%6d %10.0f %14s %14s %13s %13s\n", rank, report[kPid], human(kDataRss).c_str(),
                human(kDataPss).c_str(), human(kWeightsRss).c_str(), human(kWeightsPss).c_str());
    pss += report[kDataPss] + report[kWeightsPss];
  }
  return static_cast<int64_t>(pss);
}

Status RunParent(int ranks) {
  TB_ASSIGN_OR_RETURN(Client client, Client::Embedded({.label = "ranks"}));
  int64_t one_copy = 0;
  {
    TB_ASSIGN_OR_RETURN(const Tensor data, client.Empty({kRows, kColumns}));
    FillDataSet(data.data<float>());
    TB_ASSIGN_OR_RETURN(const Tensor weights, client.Zeros({kInputs, kOutputs}));
    TB_ASSIGN_OR_RETURN(const Tensor gradients, client.Empty({ranks, kInputs, kOutputs}));
    TB_ASSIGN_OR_RETURN(const Tensor reports, client.Zeros({ranks, kReportColumns}, DType::kFloat64));
    TB_RETURN_IF_ERROR(data.Publish("ranks/data"));
    TB_RETURN_IF_ERROR(weights.Publish("ranks/weights"));
    TB_RETURN_IF_ERROR(gradients.Publish("ranks/gradients"));
    TB_RETURN_IF_ERROR(reports.Publish("ranks/reports"));
    one_copy = data.nbytes() + weights.nbytes();
  }  // the names keep them; this process maps nothing any more
  TB_RETURN_IF_ERROR(client.Flush());
  std::printf("%d ranks, one data set and one weight buffer: %s\n", ranks, HumanBytes(one_copy).c_str());

  Children children;  // they find the private broker by the environment
  for (int rank = 0; rank < ranks; ++rank) {
    TB_RETURN_IF_ERROR(children.Spawn("rank " + std::to_string(rank),
                                      {"--rank", std::to_string(rank), "--ranks", std::to_string(ranks)}));
  }
  TB_RETURN_IF_ERROR(children.Wait());

  TB_ASSIGN_OR_RETURN(const Tensor reports, client.Open("ranks/reports"));
  const double* report = reports.data<const double>();
  const int64_t pss = PrintReports(report, ranks);
  std::printf("sum of PSS: %s, once the memory; %d private copies would take %s\n", HumanBytes(pss).c_str(),
              ranks, HumanBytes(ranks * one_copy).c_str());
  if (pss > one_copy + one_copy / 10) return DataLossError("the ranks take more memory than one copy");
  double first = 0, last = 0;
  for (int rank = 0; rank < ranks; ++rank, report += kReportColumns) {
    first += report[kFirstError] / static_cast<double>(ranks * kRowsPerStep * kOutputs);
    last += report[kLastError] / static_cast<double>(ranks * kRowsPerStep * kOutputs);
  }
  std::printf("mean squared error: %.4f at the first step, %.4f at the last\n", first, last);

  TB_ASSIGN_OR_RETURN(const Tensor data, client.Open("ranks/data"));
  TB_ASSIGN_OR_RETURN(const Tensor weights, client.Open("ranks/weights"));
  const std::vector<float> alone = TrainAlone(data.data<const float>(), ranks);
  const bool equal = std::memcmp(alone.data(), weights.data_ptr(), alone.size() * sizeof(float)) == 0;
  std::printf("weights after %d steps: %s\n", kSteps,
              equal ? "equal to the bit to training in one process" : "NOT those of training in one process");
  if (!equal) return DataLossError("the ranks do not agree with training in one process");
  return OkStatus();
}

}  // namespace
}  // namespace tensorbroker::examples

int main(int argc, char** argv) {
  using namespace tensorbroker::examples;
  int ranks = 4, rank = -1, parent = 0;
  for (int i = 1; i < argc; i += 2) {
    const char* value = i + 1 < argc ? argv[i + 1] : "";
    if (std::strcmp(argv[i], "--ranks") == 0)
      ranks = std::atoi(value);
    else if (std::strcmp(argv[i], "--rank") == 0)
      rank = std::atoi(value);
    else if (std::strcmp(argv[i], "--parent") == 0)
      parent = std::atoi(value);
    else
      ranks = 0;
  }
  if (ranks < 1 || ranks > 64) {
    std::printf(
        "Usage: ranks [--ranks K]\nK (4; 1 to 64) training ranks share one data set and one weight buffer. "
        "Needs no "
        "broker: it starts one.\n");
    return argc == 2 && std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  if (parent != 0) EndWithParent(parent);
  const tensorbroker::Status status = rank >= 0 ? RunRank(rank, ranks) : RunParent(ranks);
  if (!status.ok()) std::fprintf(stderr, "ranks: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
