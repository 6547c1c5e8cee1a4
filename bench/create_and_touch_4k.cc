// What does it cost to create 4 KiB, map it and write it, above doing just that by hand: a call, a descriptor of a fresh
// file, mmap, a store?
#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer CreateAndTouch4k(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  TB_ASSIGN_OR_RETURN(Floor * floor, context.floor());
  Client& client = broker->client();
  const int64_t count = context.options().count(2'000);
  Storage storage;
  const auto create = [&]() -> Status {
    TB_ASSIGN_OR_RETURN(storage, client.CreateStorage(4096));
    storage.mutable_bytes()[0] = std::byte{1};
    return OkStatus();
  };
  const auto drop = [&] {
    storage = {};
    return OkStatus();
  };
  Fd file;
  std::optional<FloorMapping> mapping;
  const auto by_hand = [&]() -> Status {
    TB_RETURN_IF_ERROR(floor->Echo(CreatePayload()));
    TB_ASSIGN_OR_RETURN(file, floor->NewFile(4096));
    mapping.emplace(file.get(), 4096, true, false);
    if (mapping->data() == nullptr) return ErrnoStatus(errno, "mmap");
    WritePages(mapping->data(), 4096);
    return OkStatus();
  };
  const auto undo = [&] {
    mapping.reset();
    file.reset();
    return OkStatus();
  };
  const auto ours = [&] { return MedianMicros(count, create, drop); };
  const auto theirs = [&] { return MedianMicros(count, by_hand, undo); };
  TB_ASSIGN_OR_RETURN(const Row row, Compare(context.options(),
                                             {.name = "create_and_touch_4k",
                                              .unit = "us",
                                              .against = "echo, SCM_RIGHTS, fallocate, mmap, touch",
                                              .budget = 1.3},
                                             ours, theirs));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
