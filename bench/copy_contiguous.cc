// How near to memcpy does a copy of contiguous bytes come? And a clone, which needs new memory?
#include <cstring>

#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer CopyContiguous(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  Client& client = broker->client();
  TB_ASSIGN_OR_RETURN(const Tensor source, client.Full({4096, 4096}, 1.0));
  TB_ASSIGN_OR_RETURN(Tensor target, client.Full({4096, 4096}, 2.0));
  const auto milliseconds = [](const std::function<Status()>& operation) -> StatusOr<double> {
    TB_ASSIGN_OR_RETURN(const double micros, MedianMicros(3, operation));
    return micros / 1000;
  };
  const auto copy = [&] { return milliseconds([&] { return target.CopyFrom(source); }); };
  const auto clone = [&] { return milliseconds([&] { return source.Clone().status(); }); };
  const auto floor = [&] {
    return milliseconds([&] {
      std::memcpy(target.mutable_data_ptr(), source.data_ptr(), static_cast<size_t>(source.nbytes()));
      return OkStatus();
    });
  };
  TB_ASSIGN_OR_RETURN(const Row copied, Compare(context.options(),
                                                {.name = "copy_contiguous",
                                                 .unit = "ms",
                                                 .against = "memcpy",
                                                 .budget = 1.05,
                                                 .note = "64 MiB into a tensor that is there"},
                                                copy, floor));
  TB_ASSIGN_OR_RETURN(
      const Row cloned,
      Compare(context.options(),
              {.name = "copy_contiguous_clone",
               .unit = "ms",
               .against = "memcpy",
               .budget = 1.05,
               .note = "64 MiB into a new Storage: its pages are made, zeroed and mapped in this time"},
              clone, floor));
  return std::vector<Row>{copied, cloned};
}

}  // namespace tensorbroker::bench
