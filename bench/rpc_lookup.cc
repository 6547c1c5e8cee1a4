// What does it cost to open a name whose Storage is mapped already, above a bare call with as many bytes?
#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer RpcLookup(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  TB_ASSIGN_OR_RETURN(Floor * floor, context.floor());
  Client& client = broker->client();
  TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Empty({1024}));
  TB_RETURN_IF_ERROR(tensor.Publish("bench/lookup"));
  const int64_t count = context.options().count(5'000);
  const auto ours = [&] { return MedianMicros(count, [&] { return client.Open("bench/lookup").status(); }); };
  const auto echo = [&] { return MedianMicros(count, [&] { return floor->Echo(OpenPayload()); }); };
  TB_ASSIGN_OR_RETURN(
      const Row row,
      Compare(context.options(), {.name = "rpc_lookup", .unit = "us", .against = "gRPC echo", .budget = 1.3},
              ours, echo));
  TB_RETURN_IF_ERROR(client.Unpublish("bench/lookup"));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
