// The trainer: starts the workers, opens their batches without a copy, learns from them, reports.
#ifndef TENSORBROKER_EXAMPLES_DATALOADER_TRAINER_H_
#define TENSORBROKER_EXAMPLES_DATALOADER_TRAINER_H_

#include "examples/dataloader/options.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::examples {

// Prints its results on stdout. A worker that dies ends the whole program with exit code 1.
Status RunTrainer(const DataloaderOptions& options);

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_DATALOADER_TRAINER_H_
