// What does the caller pay to drop one of 1,000 mapped Storages? (The release travels later, with others.)
#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer ReleaseBatched(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  Client& client = broker->client();
  constexpr int64_t kStorages = 1'000;
  const auto ours = [&]() -> StatusOr<double> {
    std::vector<Storage> storages;
    for (int64_t i = 0; i < kStorages; ++i) {
      TB_ASSIGN_OR_RETURN(Storage storage, client.CreateStorage(4096));
      storages.push_back(std::move(storage));
    }
    const int64_t start = NowNs();
    for (Storage& storage : storages) storage = {};
    const int64_t taken = NowNs() - start;
    TB_RETURN_IF_ERROR(client.Flush());
    return static_cast<double>(taken) / 1000 / static_cast<double>(kStorages);
  };
  TB_ASSIGN_OR_RETURN(
      const Row row,
      Absolute(context.options(),
               {.name = "release_batched", .unit = "us", .budget = 1, .note = "mapped, 4 KiB each"}, ours));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
