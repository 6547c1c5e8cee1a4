// What does it cost to open 1 GiB that this process has not mapped, populate it, and read a byte of each page, above mmap
// with MAP_POPULATE and the same reads? And without populating?
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

  const auto open = [&](bool populate) -> StatusOr<double> {
    const int64_t start = NowNs();
    TB_ASSIGN_OR_RETURN(Tensor tensor, client.Open("bench/attach"));
    if (populate) TB_RETURN_IF_ERROR(tensor.storage().Populate());
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
  const std::string size = context.options().quick ? "of 128 MiB" : "of 1 GiB";
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, const std::string& how, bool populate) -> Status {
    TB_ASSIGN_OR_RETURN(Row row, Compare(
                                     context.options(),
                                     {.name = name,
                                      .unit = "ms",
                                      .against = "mmap with MAP_POPULATE",
                                      .budget = 1.1,
                                      .note = size + how},
                                     [&] { return open(populate); }, theirs));
    rows.push_back(std::move(row));
    return OkStatus();
  };
  TB_RETURN_IF_ERROR(add("attach_cold_1gib", ", with Storage::Populate", true));
  TB_RETURN_IF_ERROR(add("attach_cold_1gib_faults", ", page by page", false));
  TB_RETURN_IF_ERROR(client.Unpublish("bench/attach"));
  return rows;
}

}  // namespace tensorbroker::bench
