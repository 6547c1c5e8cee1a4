// What does it cost to create 4 KiB without mapping it, above a bare call? Drops are not timed, but their releases ride in
// the next create's request.
#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer RpcCreate4k(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  TB_ASSIGN_OR_RETURN(Floor * floor, context.floor());
  Client& client = broker->client();
  const int64_t count = context.options().count(2'000);
  Storage storage;
  const auto create = [&]() -> Status {
    TB_ASSIGN_OR_RETURN(storage, client.CreateStorage(4096, {.map = false}));
    return OkStatus();
  };
  const auto drop = [&] {
    storage = {};
    return OkStatus();
  };
  const auto ours = [&] { return MedianMicros(count, create, drop); };
  const auto echo = [&] { return MedianMicros(count, [&] { return floor->Echo(CreatePayload()); }); };
  TB_ASSIGN_OR_RETURN(
      const Row row,
      Compare(
          context.options(),
          {.name = "rpc_create_4k",
           .unit = "us",
           .against = "gRPC echo",
           .note = "reported: each makes a file; the budget (1.3) is for an allocator that reuses Segments"},
          ours, echo));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
