// Does a client notice that another one creates 8 GiB? The 99th percentile of its lookups meanwhile, against the same while
// the broker has nothing else to do. The broker may use both cores here, as it would.
#include <poll.h>

#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer OtherClientP99(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker broker, Broker::Start(-1));
  Client& client = broker.client();
  TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Empty({1024}));
  TB_RETURN_IF_ERROR(tensor.Publish("bench/lookup"));
  const int64_t bytes = context.options().quick ? int64_t{1} << 30 : int64_t{1} << 33;
  TB_ASSIGN_OR_RETURN(Process other, broker.StartChild("create", {std::to_string(bytes)}, -1));
  TB_RETURN_IF_ERROR(other.Expect("ready"));
  const auto lookup = [&] { return client.Open("bench/lookup").status(); };

  const auto during = [&]() -> StatusOr<double> {
    TB_RETURN_IF_ERROR(other.Write("go\n"));
    std::vector<int64_t> times;
    for (pollfd done{other.stdout_fd(), POLLIN, 0}; poll(&done, 1, 0) == 0;) {
      TB_ASSIGN_OR_RETURN(const std::vector<int64_t> some, Time(20, lookup));
      times.insert(times.end(), some.begin(), some.end());
    }
    TB_RETURN_IF_ERROR(other.Expect("created"));
    TB_RETURN_IF_ERROR(other.Expect("dropped"));
    std::sort(times.begin(), times.end());
    if (times.size() < 500) return InternalError("the create was over before there was anything to measure");
    return static_cast<double>(Quantile(times, 0.99)) / 1000;
  };
  const auto idle = [&]() -> StatusOr<double> {
    TB_ASSIGN_OR_RETURN(const std::vector<int64_t> times, Time(context.options().count(10'000), lookup));
    return static_cast<double>(Quantile(times, 0.99)) / 1000;
  };
  TB_ASSIGN_OR_RETURN(const Row row, Compare(context.options(),
                                             {.name = "other_client_p99",
                                              .unit = "us",
                                              .against = "the same, idle",
                                              .budget = 2,
                                              .note = context.options().quick ? "of 1 GiB" : ""},
                                             during, idle));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
