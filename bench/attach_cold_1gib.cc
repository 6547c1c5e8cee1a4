// What does it cost to open 1 GiB that this process has not mapped, and read a byte of each page, above mmap with
// MAP_POPULATE and the same reads?
#include "bench/benchmarks.h"

namespace tensorbroker::bench {

Answer AttachCold1Gib(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  TB_ASSIGN_OR_RETURN(Floor * floor, context.floor());
  Client& client = broker->client();
  const int64_t bytes = context.options().quick ? int64_t{1} << 27 : int64_t{1} << 30;
  {
    TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Empty({bytes}, DType::kUInt8, {.map = false}));
    TB_RETURN_IF_ERROR(tensor.Publish("bench/attach"));
  }
  TB_RETURN_IF_ERROR(client.Flush());
  TB_ASSIGN_OR_RETURN(const Fd file, floor->NewFile(bytes));

  Tensor tensor;
  const auto ours = [&]() -> StatusOr<double> {
    const int64_t start = NowNs();
    TB_ASSIGN_OR_RETURN(tensor, client.Open("bench/attach"));
    ReadPages(tensor.data_ptr(), bytes);
    const int64_t taken = NowNs() - start;
    tensor = {};  // unmaps: the next one is cold again
    TB_RETURN_IF_ERROR(client.Flush());
    return static_cast<double>(taken) / 1e6;
  };
  const auto theirs = [&]() -> StatusOr<double> {
    const int64_t start = NowNs();
    const FloorMapping mapping(file.get(), bytes, false, true);
    if (mapping.data() == nullptr) return ErrnoStatus(errno, "mmap");
    ReadPages(mapping.data(), bytes);
    return static_cast<double>(NowNs() - start) / 1e6;
  };
  TB_ASSIGN_OR_RETURN(const Row row, Compare(context.options(),
                                             {.name = "attach_cold_1gib",
                                              .unit = "ms",
                                              .against = "mmap with MAP_POPULATE",
                                              .budget = 1.1,
                                              .note = context.options().quick ? "of 128 MiB" : ""},
                                             ours, theirs));
  TB_RETURN_IF_ERROR(client.Unpublish("bench/attach"));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
