// Is a lookup among a million names slower than among ten?
#include <thread>

#include "bench/benchmarks.h"
#include "tensorbroker/base/mutex.h"

namespace tensorbroker::bench {
namespace {

// Publishes `count` names, from several threads. A Storage has at most 4,096 names: these have 1,000 each. Gives one
// tensor of each Storage.
StatusOr<std::vector<Tensor>> PublishMany(Client& client, int64_t count) {
  constexpr int kThreads = 8;
  Mutex mutex;
  Status failure;
  std::vector<Tensor> tensors;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Tensor tensor;
      Status status;
      for (int64_t i = thread, made = 0; i < count && status.ok(); i += kThreads, ++made) {
        if (made % 1'000 == 0) {
          StatusOr<Tensor> next = client.Empty({1024}, DType::kFloat32, {.map = false});
          status = next.status();
          if (!status.ok()) break;
          tensor = *std::move(next);
          MutexLock lock(mutex);
          tensors.push_back(tensor);
        }
        status = tensor.Publish("bench/" + std::to_string(i));
      }
      MutexLock lock(mutex);
      if (!status.ok()) failure = status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (!failure.ok()) return failure;
  return tensors;
}

}  // namespace

Answer RpcLookup1m(Context& context) {
  const int64_t names = context.options().quick ? 20'000 : 1'000'000;
  TB_ASSIGN_OR_RETURN(Broker many, Broker::Start(kBrokerCore));
  TB_ASSIGN_OR_RETURN(Broker few, Broker::Start(kBrokerCore));
  // Held throughout, so that a lookup opens what this process has, and sends no release.
  TB_ASSIGN_OR_RETURN(const std::vector<Tensor> held_of_many, PublishMany(many.client(), names));
  TB_ASSIGN_OR_RETURN(const std::vector<Tensor> held_of_few, PublishMany(few.client(), 10));
  const int64_t count = context.options().count(5'000);
  // Strides through the names so that each lookup finds cold ones.
  const auto lookup = [count](Client& client, int64_t among) -> StatusOr<double> {
    int64_t next = 0;
    return MedianMicros(count, [&] {
      next = (next + 611'953) % among;
      return client.Open("bench/" + std::to_string(next), {.map = false}).status();
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
