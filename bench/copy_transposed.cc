// How near to a blocked transpose does a copy of a transposed float32 4096 x 4096 view come?
#include "bench/benchmarks.h"

namespace tensorbroker::bench {
namespace {

// The floor: what anyone would write.
void TransposeBlocked(const float* source, float* target, int64_t rows, int64_t columns) {
  constexpr int64_t kBlock = 64;  // the fastest of 8, 16, 32 and 64, reading or writing rows
  for (int64_t r = 0; r < rows; r += kBlock) {
    for (int64_t c = 0; c < columns; c += kBlock) {
      for (int64_t i = r; i < r + kBlock; ++i) {
        for (int64_t j = c; j < c + kBlock; ++j) target[i * columns + j] = source[j * rows + i];
      }
    }
  }
}

}  // namespace

Answer CopyTransposed(Context& context) {
  TB_ASSIGN_OR_RETURN(Broker * broker, context.broker());
  Client& client = broker->client();
  constexpr int64_t kSide = 4096;
  TB_ASSIGN_OR_RETURN(const Tensor source, client.Full({kSide, kSide}, 1.0));
  TB_ASSIGN_OR_RETURN(const Tensor transposed, source.T());
  TB_ASSIGN_OR_RETURN(Tensor target, client.Full({kSide, kSide}, 2.0));
  const auto milliseconds = [](const std::function<Status()>& operation) -> StatusOr<double> {
    TB_ASSIGN_OR_RETURN(const double micros, MedianMicros(3, operation));
    return micros / 1000;
  };
  const auto ours = [&] { return milliseconds([&] { return target.CopyFrom(transposed); }); };
  const auto floor = [&] {
    return milliseconds([&] {
      TransposeBlocked(source.data<const float>(), target.data<float>(), kSide, kSide);
      return OkStatus();
    });
  };
  TB_ASSIGN_OR_RETURN(const Row row, Compare(context.options(),
                                             {.name = "copy_transposed",
                                              .unit = "ms",
                                              .against = "blocked transpose",
                                              .budget = 1.2,
                                              .note = "64 MiB into a tensor that is there"},
                                             ours, floor));
  return std::vector<Row>{row};
}

}  // namespace tensorbroker::bench
