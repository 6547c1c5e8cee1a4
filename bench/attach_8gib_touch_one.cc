// What does it cost to open 8 GiB and read one element of it, above doing just that by hand?
#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer Attach8GibTouchOne(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  TB_ASSIGN_OR_RETURN(Floor * floor, context.floor());
  Client& client = broker->client();
  const int64_t bytes = context.options().quick ? int64_t{1} << 30 : int64_t{1} << 33;
  {
    TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Empty({bytes}, DType::kUInt8, {.map = false}));
    TB_RETURN_IF_ERROR(tensor.Publish("bench/attach"));
  }
  TB_RETURN_IF_ERROR(client.Flush());

  const int64_t count = context.options().count(200);
  Tensor tensor;
  const auto open = [&]() -> Status {
    TB_ASSIGN_OR_RETURN(tensor, client.Open("bench/attach"));
    ReadPages(tensor.data_ptr(), 1);
    return OkStatus();
  };
  const auto drop = [&] {
    tensor = {};
    return client.Flush();
  };
  Fd file;
  std::optional<FloorMapping> mapping;
  const auto by_hand = [&]() -> Status {
    TB_RETURN_IF_ERROR(floor->Echo(OpenPayload()));
    TB_ASSIGN_OR_RETURN(file, floor->SparseFile(bytes));
    mapping.emplace(file.get(), bytes, false, false);
    if (mapping->data() == nullptr) return ErrnoStatus(errno, "mmap");
    ReadPages(mapping->data(), 1);
    return OkStatus();
  };
  const auto undo = [&] {
    mapping.reset();
    file.reset();
    return OkStatus();
  };
  const auto ours = [&] { return MedianMicros(count, open, drop); };
  const auto theirs = [&] { return MedianMicros(count, by_hand, undo); };
  TB_ASSIGN_OR_RETURN(const Row row, Compare(context.options(),
                                             {.name = "attach_8gib_touch_one",
                                              .unit = "us",
                                              .against = "echo, SCM_RIGHTS, mmap, one read",
                                              .budget = 1.3,
                                              .value_limit = 5'000,
                                              .note = context.options().quick ? "of 1 GiB" : ""},
                                             ours, theirs));
  TB_RETURN_IF_ERROR(client.Unpublish("bench/attach"));
  TB_RETURN_IF_ERROR(client.Flush());
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
