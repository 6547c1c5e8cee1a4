// What does a view cost? One Narrow of a mapped tensor, its result dropped. And does it allocate?
#include <atomic>
#include <cstdlib>
#include <new>

#include "bench/benchmarks.h"

namespace {
std::atomic<int64_t> allocations{0};
}

// Counts what this program's own code allocates.
void* operator new(size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* data = std::malloc(bytes)) return data;
  std::abort();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, size_t) noexcept { std::free(data); }

namespace tensorbroker::bench {

Answer ViewNarrow(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  TB_ASSIGN_OR_RETURN(const Tensor tensor, broker->client().Empty({1000, 1000}));
  const int64_t count = context.options().count(1'000'000);
  TB_RETURN_IF_ERROR(broker->client().Flush());
  int64_t allocated = 0;
  const auto ours = [&]() -> StatusOr<double> {
    const int64_t before = allocations.load();
    const int64_t start = NowNs();
    for (int64_t i = 0; i < count; ++i) {
      const StatusOr<Tensor> view = tensor.Narrow(0, i % 999, 1);
      if (!view.ok()) return view.status();
    }
    const int64_t taken = NowNs() - start;
    allocated += allocations.load() - before;
    return static_cast<double>(taken) / static_cast<double>(count);
  };
  TB_ASSIGN_OR_RETURN(Row row,
                      Absolute(context.options(), {.name = "view_narrow", .unit = "ns", .budget = 50}, ours));
  // Other threads of this process may allocate now and then; a view that does would count a million.
  const double each =
      static_cast<double>(allocated) / static_cast<double>(count * (context.options().rounds() + 1));
  row.note = each < 0.001 ? "0 allocations" : std::to_string(each) + " allocations a view";
  if (each >= 0.001) row.holds = false;
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
