// A data-loader worker: reads the digits, makes every n-th batch, publishes it.
#ifndef TENSORBROKER_EXAMPLES_DATALOADER_WORKER_H_
#define TENSORBROKER_EXAMPLES_DATALOADER_WORKER_H_

#include "examples/dataloader/options.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::examples {

// Runs worker number `worker` to its end; returns when the trainer has taken everything it made.
Status RunWorker(const DataloaderOptions& options, int worker);

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_DATALOADER_WORKER_H_
