// What the data-loader story is told to do, and the names that trainer and workers meet under.
#ifndef TENSORBROKER_EXAMPLES_DATALOADER_OPTIONS_H_
#define TENSORBROKER_EXAMPLES_DATALOADER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"

namespace tensorbroker::examples {

struct DataloaderOptions {
  std::string socket;  // empty: a private broker
  std::string data;    // the folder of digits_images.npy and digits_labels.npy
  int workers = 4;
  int batch = 64;   // digits in a batch
  int epochs = 30;  // passes over the training digits
  int ahead = 2;    // batches that a worker may have published and not got back
  uint64_t seed = 1;
};

// How long one side waits for the other before it gives up.
inline constexpr Duration kPatience = std::chrono::seconds(60);

// A row of a batch: 64 pixels in 0 to 1, then the label. Pixels and labels are two views of one Storage.
inline constexpr int64_t kPixels = 64;
inline constexpr int64_t kColumns = kPixels + 1;
inline constexpr int kClasses = 10;

// Everything that worker `worker` publishes stands under this prefix; each name that the trainer unpublishes there is
// leave for the worker to publish one more.
inline std::string WorkerPrefix(int worker) { return "digits/worker" + std::to_string(worker) + "/"; }
// int64 (2,): digits to train on, digits held out. From worker 0.
inline std::string PlanName() { return WorkerPrefix(0) + "plan"; }
// float32 (held out, kColumns). From worker 0.
inline std::string HeldOutName() { return WorkerPrefix(0) + "held_out"; }
// float32 (batch, kColumns).
inline std::string BatchName(int worker, int epoch, int64_t step) {
  return WorkerPrefix(worker) + "epoch" + std::to_string(epoch) + "/batch" + std::to_string(step);
}
// int64 (3,): bytes that crossed its connection, batches, nanoseconds spent on filling them.
inline std::string ReportName(int worker) { return WorkerPrefix(worker) + "report"; }

// Which worker makes batch `step` of `epoch`: they take turns.
inline int WorkerOf(int epoch, int64_t step, int64_t steps, int workers) {
  return static_cast<int>((epoch * steps + step) % workers);
}

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_DATALOADER_OPTIONS_H_
