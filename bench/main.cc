// Runs the benchmarks whose name holds one of the filters (all where there is none); scripts/bench.sh builds and starts it.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "bench/benchmarks.h"

namespace tensorbroker::bench {

StatusOr<Broker*> Context::broker() {
  if (!broker_) {
    TB_ASSIGN_OR_RETURN(Broker broker, Broker::Start(kBrokerCore));
    broker_.emplace(std::move(broker));
  }
  return &*broker_;
}

StatusOr<Floor*> Context::floor() {
  if (!floor_) {
    TB_ASSIGN_OR_RETURN(Floor floor, Floor::Start());
    floor_.emplace(std::move(floor));
  }
  return &*floor_;
}

namespace {

struct Benchmark {
  std::vector<std::string> rows;
  Answer (*run)(Context&);
};

const std::vector<Benchmark>& Benchmarks() {
  static const auto* benchmarks = new std::vector<Benchmark>{
      {{"view_narrow"}, ViewNarrow},
      {{"rpc_lookup"}, RpcLookup},
      {{"rpc_create_4k"}, RpcCreate4k},
      {{"create_and_touch_4k"}, CreateAndTouch4k},
      {{"release_batched"}, ReleaseBatched},
      {{"attach_cold_1gib"}, AttachCold1Gib},
      {{"attach_8gib_touch_one"}, Attach8GibTouchOne},
      {{"copy_contiguous"}, CopyContiguous},
      {{"copy_transposed"}, CopyTransposed},
      {{"reclaim_one", "reclaim_one_64mib", "reclaim_1000"}, Reclaim},
      {{"other_client_p99"}, OtherClientP99},
      {{"list_100k", "heap_per_storage"}, ManyStorages},
      {{"rpc_lookup_1m"}, RpcLookup1m},
  };
  return *benchmarks;
}

bool Wanted(const Benchmark& benchmark, const std::vector<std::string>& filters) {
  if (filters.empty()) return true;
  for (const std::string& row : benchmark.rows) {
    for (const std::string& filter : filters) {
      if (row.find(filter) != std::string::npos) return true;
    }
  }
  return false;
}

int Run(const Options& options, const std::string& json, const std::vector<std::string>& filters) {
  std::printf("%s\n%s\n", Machine().c_str(), Headings().c_str());
  Pin(kClientCore);
  Context context(options);
  std::vector<Row> rows;
  bool failed = false;
  for (const Benchmark& benchmark : Benchmarks()) {
    if (!Wanted(benchmark, filters)) continue;
    const Answer answer = benchmark.run(context);
    if (!answer.ok()) {
      std::printf("%-24s failed: %s\n", benchmark.rows[0].c_str(), answer.status().ToString().c_str());
      failed = true;
      continue;
    }
    for (const Row& row : *answer) {
      std::printf("%s\n", ToLine(row).c_str());
      rows.push_back(row);
    }
    std::fflush(stdout);
  }
  if (!json.empty()) std::ofstream(json) << ToJson(rows);
  return failed ? 1 : 0;
}

}  // namespace
}  // namespace tensorbroker::bench

int main(int argc, char** argv) {
  tensorbroker::bench::Options options;
  std::string json;
  std::vector<std::string> filters;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--child") == 0)
      return tensorbroker::bench::RunChild({argv + i + 1, argv + argc});
    if (std::strcmp(argv[i], "--quick") == 0) {
      options.quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else if (argv[i][0] == '-') {
      std::fprintf(stderr, "usage: tensorbroker_bench [--quick] [--json FILE] [FILTER]...\n");
      return 2;
    } else {
      filters.push_back(argv[i]);
    }
  }
  return tensorbroker::bench::Run(options, json, filters);
}
