// The digits as a worker reads them: from .npy files, checked, and split by a seed.
#ifndef TENSORBROKER_EXAMPLES_DATALOADER_DIGITS_H_
#define TENSORBROKER_EXAMPLES_DATALOADER_DIGITS_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tensorbroker/base/status.h"

namespace tensorbroker::examples {

struct Digits {
  std::vector<uint8_t> pixels;  // [count, kPixels], 0 to 16
  std::vector<int64_t> labels;  // [count], 0 to 9

  int64_t count() const { return static_cast<int64_t>(labels.size()); }
  // Writes the digits that `which` names, normalised, as rows of kColumns floats.
  void Fill(std::span<const int64_t> which, float* rows) const;
};

// Reads digits_images.npy and digits_labels.npy in `folder`.
// kInvalidArgument  they are not what examples/data/README.md describes; and the codes of reading .npy files
StatusOr<Digits> ReadDigits(const std::string& folder);

// Indices of the digits to train on and of those held out (a fifth).
struct Split {
  std::vector<int64_t> train;
  std::vector<int64_t> held_out;
};
Split SplitDigits(int64_t count, uint64_t seed);

// `indices` in the order of `epoch`. Every process that asks gets the same one.
std::vector<int64_t> ShuffledFor(int epoch, uint64_t seed, std::vector<int64_t> indices);

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_DATALOADER_DIGITS_H_
