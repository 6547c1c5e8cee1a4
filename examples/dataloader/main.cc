// The data-loader story: worker processes fill shared batches, a trainer learns from them without a copy.
#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "examples/common/children.h"
#include "examples/dataloader/options.h"
#include "examples/dataloader/trainer.h"
#include "examples/dataloader/worker.h"

namespace {

constexpr char kHelp[] =
    "Usage: dataloader [OPTION]...\n"
    "Worker processes read the digits, shuffle, normalise and fill float32 batches in shared memory; a "
    "trainer opens\n"
    "them without a copy and trains a softmax classifier. Prints its accuracy on held-out digits, the bytes "
    "that\n"
    "crossed the socket, the bytes shared, the time a batch, and what `tensorctl ls` shows in the middle.\n"
    "\n"
    "  --workers N     worker processes (4)\n"
    "  --batch N       digits in a batch (64)\n"
    "  --epochs N      passes over the training digits (30)\n"
    "  --ahead N       batches that a worker may be ahead of the trainer (2)\n"
    "  --seed N        of the split and the shuffles (1): the same seed gives the same accuracy\n"
    "  --data FOLDER   where digits_images.npy and digits_labels.npy are (examples/data)\n"
    "  --socket PATH   use the broker there; otherwise a private one is started, and ends with this program\n"
    "  --help          this text\n"
    "\n"
    "Exit code: 0; 1 when something failed (a worker that dies is named); 2 for wrong usage.\n";

int Usage(const char* option, const char* value) {
  std::fprintf(stderr, "dataloader: %s %s: give a number from 1 to 1000000; see --help\n", option, value);
  return 2;
}

// True where `text` is a number from 1 to 1,000,000.
bool ReadNumber(const char* text, int& number) {
  char* end = nullptr;
  const long value = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || value < 1 || value > 1'000'000) return false;
  number = static_cast<int>(value);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  tensorbroker::examples::DataloaderOptions options;
  options.data = TENSORBROKER_EXAMPLES_DATA;
  int worker = -1, seed = 1, parent = 0;
  enum { kWorkers = 1, kBatch, kEpochs, kAhead, kSeed, kData, kSocket, kHelpOption, kWorker, kParent };
  const option long_options[] = {
      {"workers", required_argument, nullptr, kWorkers},
      {"batch", required_argument, nullptr, kBatch},
      {"epochs", required_argument, nullptr, kEpochs},
      {"ahead", required_argument, nullptr, kAhead},
      {"seed", required_argument, nullptr, kSeed},
      {"data", required_argument, nullptr, kData},
      {"socket", required_argument, nullptr, kSocket},
      {"help", no_argument, nullptr, kHelpOption},
      {"worker", required_argument, nullptr, kWorker},  // this process is worker N,
      {"parent", required_argument, nullptr, kParent},  // started by this one
      {nullptr, 0, nullptr, 0}};
  int index = 0;
  for (int found; (found = getopt_long(argc, argv, "", long_options, &index)) != -1;) {
    bool good = true;
    switch (found) {
      case kWorkers:
        good = ReadNumber(optarg, options.workers);
        break;
      case kBatch:
        good = ReadNumber(optarg, options.batch);
        break;
      case kEpochs:
        good = ReadNumber(optarg, options.epochs);
        break;
      case kAhead:
        good = ReadNumber(optarg, options.ahead);
        break;
      case kSeed:
        good = ReadNumber(optarg, seed);
        break;
      case kData:
        options.data = optarg;
        break;
      case kSocket:
        options.socket = optarg;
        break;
      case kWorker:
        worker = std::atoi(optarg);
        break;
      case kParent:
        parent = std::atoi(optarg);
        break;
      case kHelpOption:
        std::fputs(kHelp, stdout);
        return 0;
      default:
        return 2;
    }
    if (!good) return Usage(long_options[index].name, optarg);
  }
  if (optind < argc) return Usage(argv[optind], "");
  options.seed = static_cast<uint64_t>(seed);

  if (parent != 0) tensorbroker::examples::EndWithParent(parent);
  const tensorbroker::Status status = worker >= 0 ? tensorbroker::examples::RunWorker(options, worker)
                                                  : tensorbroker::examples::RunTrainer(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "dataloader%s: %s\n", worker >= 0 ? " worker" : "", status.ToString().c_str());
  return 1;
}
