// What does a Storage cost in a long list, against a short one? And how much of the broker's heap does it take?
#include "bench/benchmarks.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::bench {
namespace {

StatusOr<std::vector<Storage>> CreateMany(Client& client, int64_t count) {
  std::vector<Storage> storages;
  storages.reserve(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    TB_ASSIGN_OR_RETURN(Storage storage, client.CreateStorage(4096, {.map = false}));
    storages.push_back(std::move(storage));
  }
  return storages;
}

// Nanoseconds a Storage of a whole list.
StatusOr<double> ListEach(Client& client, int64_t count) {
  int64_t seen = 0;
  const int64_t start = NowNs();
  TB_RETURN_IF_ERROR(client.inspector().List({}, [&seen](const StorageRecord&) { ++seen; }));
  const int64_t taken = NowNs() - start;
  if (seen != count) return InternalError("the list had " + std::to_string(seen) + " Storages");
  return static_cast<double>(taken) / static_cast<double>(count);
}

}  // namespace

Answer ManyStorages(Context& context) {
  const int64_t many = context.options().count(100'000);
  constexpr int64_t kFew = 1'000;
  TB_ASSIGN_OR_RETURN(Broker large, Broker::Start(kBrokerCore));
  TB_ASSIGN_OR_RETURN(Broker small, Broker::Start(kBrokerCore));
  TB_ASSIGN_OR_RETURN(const std::vector<Storage> first,
                      CreateMany(large.client(), kFew));  // pools and tables that stay
  const int64_t before = AnonymousBytes(large.pid());
  TB_ASSIGN_OR_RETURN(const std::vector<Storage> rest, CreateMany(large.client(), many - kFew));
  const int64_t after = AnonymousBytes(large.pid());
  TB_ASSIGN_OR_RETURN(const std::vector<Storage> few, CreateMany(small.client(), kFew));

  const auto in_many = [&] { return ListEach(large.client(), many); };
  const auto in_few = [&]() -> StatusOr<double> {
    double sum = 0;
    for (int i = 0; i < 20; ++i) {
      TB_ASSIGN_OR_RETURN(const double each, ListEach(small.client(), kFew));
      sum += each;
    }
    return sum / 20;
  };
  TB_ASSIGN_OR_RETURN(const Row list, Compare(context.options(),
                                              {.name = "list_100k",
                                               .unit = "ns",
                                               .against = "a Storage in a list of 1,000",
                                               .budget = 1.1,
                                               .note = "in a list of " + std::to_string(many)},
                                              in_many, in_few));
  Row heap{.name = "heap_per_storage",
           .unit = "B",
           .value = static_cast<double>(after - before) / static_cast<double>(many - kFew)};
  heap.budget = 1024;
  heap.holds = heap.value <= *heap.budget;
  heap.note = "growth of the broker's RssAnon from 1,000 to " + std::to_string(many) + " held Storages";
  return std::vector<Row>{list, heap};
}

}  // namespace tensorbroker::bench
