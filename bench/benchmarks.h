// The questions, one file each. docs/benchmarks.md has the answers.
#ifndef TENSORBROKER_BENCH_BENCHMARKS_H_
#define TENSORBROKER_BENCH_BENCHMARKS_H_

#include <optional>
#include <vector>

#include "bench/floor.h"
#include "bench/harness.h"
#include "bench/process.h"

namespace tensorbroker::bench {

// What benchmarks share: a broker with few Storages and a floor's server, each started at its first use.
class Context {
 public:
  explicit Context(Options options) : options_(options) {}
  const Options& options() const { return options_; }
  StatusOr<Broker*> broker();
  StatusOr<Floor*> floor();

 private:
  Options options_;
  std::optional<Broker> broker_;
  std::optional<Floor> floor_;
};

using Answer = StatusOr<std::vector<Row>>;

Answer ViewNarrow(Context& context);          // view_narrow
Answer RpcLookup(Context& context);           // rpc_lookup
Answer RpcCreate4k(Context& context);         // rpc_create_4k
Answer CreateAndTouch4k(Context& context);    // create_and_touch_4k
Answer ReleaseBatched(Context& context);      // release_batched
Answer AttachCold1Gib(Context& context);      // attach_cold_1gib
Answer Attach8GibTouchOne(Context& context);  // attach_8gib_touch_one
Answer CopyContiguous(Context& context);      // copy_contiguous
Answer CopyTransposed(Context& context);      // copy_transposed
Answer Reclaim(Context& context);             // reclaim_one, reclaim_one_64mib, reclaim_1000
Answer OtherClientP99(Context& context);      // other_client_p99
Answer ManyStorages(Context& context);        // list_100k, heap_per_storage
Answer RpcLookup1m(Context& context);         // rpc_lookup_1m

}  // namespace tensorbroker::bench

#endif  // TENSORBROKER_BENCH_BENCHMARKS_H_
