// What the ranks learn: a linear map, by full gradients on shards, in a fixed order so that results are equal to the bit.
#ifndef TENSORBROKER_EXAMPLES_RANKS_PROBLEM_H_
#define TENSORBROKER_EXAMPLES_RANKS_PROBLEM_H_

#include <cstdint>

namespace tensorbroker::examples {

inline constexpr int64_t kRows = 1 << 15;                // examples in the data set
inline constexpr int64_t kInputs = 512;                  // columns that are inputs;
inline constexpr int64_t kOutputs = 16;                  // then the targets
inline constexpr int64_t kColumns = kInputs + kOutputs;  // data set: float32 [kRows, kColumns], 66 MiB
inline constexpr int64_t kRowsPerStep = 256;             // of each rank, each step
inline constexpr int kSteps = 20;

// Fills the data set: pseudo-random inputs, and targets that a fixed linear map of them gives.
void FillDataSet(float* data);

// The gradient of half the mean squared error of `rows` rows at `data` with `weights` [kInputs, kOutputs], into
// `gradient` (same shape). Gives the sum of the squared errors.
double Gradient(const float* data, int64_t rows, const float* weights, float* gradient);

// First row of what `rank` of `ranks` reads in `step`. Each rank has its own shard of the data set and walks through it.
int64_t FirstRow(int rank, int ranks, int step);

// weights -= rate / ranks * (gradients of all ranks, added in rank order), for `count` weights from `begin`.
// `gradients` is [ranks, kInputs * kOutputs].
void Descend(const float* gradients, int ranks, int64_t begin, int64_t count, float* weights);

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_RANKS_PROBLEM_H_
