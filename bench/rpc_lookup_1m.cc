// Is a lookup among a million names slower than among ten?
#include <thread>

#include "bench/benchmarks.h"
#include "tensorbroker/base/mutex.h"

namespace tensorbroker::bench {
namespace {

// Publishes one tensor under `count` names, from several threads.
Status PublishMany(Client& client, int64_t count) {
  TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Empty({1024}));
  constexpr int kThreads = 8;
  Mutex mutex;
  Status failure;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int64_t i = thread; i < count; i += kThreads) {
        const Status status = tensor.Publish("bench/" + std::to_string(i));
        if (status.ok()) continue;
        MutexLock lock(mutex);
        failure = status;
        return;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failure;
}

}  // namespace

Answer RpcLookup1m(Context& context) {
  const int64_t names = context.options().quick ? 20'000 : 1'000'000;
  TB_ASSIGN_OR_RETURN(Broker many, Broker::Start(kBrokerCore));
  TB_ASSIGN_OR_RETURN(Broker few, Broker::Start(kBrokerCore));
  TB_RETURN_IF_ERROR(PublishMany(many.client(), names));
  TB_RETURN_IF_ERROR(PublishMany(few.client(), 10));
  const int64_t count = context.options().count(5'000);
  // Strides through the names so that each lookup finds cold ones; a tensor keeps the Storage mapped.
  const auto lookup = [count](Client& client, int64_t among) -> StatusOr<double> {
    TB_ASSIGN_OR_RETURN(const Tensor held, client.Open("bench/0"));
    int64_t next = 0;
    return MedianMicros(count, [&] {
      next = (next + 611'953) % among;
      return client.Open("bench/" + std::to_string(next)).status();
    });
  };
  TB_ASSIGN_OR_RETURN(const Row row, Compare(
                                         context.options(),
                                         {.name = "rpc_lookup_1m",
                                          .unit = "us",
                                          .against = "among 10 names",
                                          .budget = 1.1,
                                          .note = "among " + std::to_string(names)},
                                         [&] { return lookup(many.client(), names); },
                                         [&] { return lookup(few.client(), 10); }));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
