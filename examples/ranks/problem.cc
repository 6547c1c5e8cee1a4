#include "examples/ranks/problem.h"

#include <algorithm>
#include <array>

namespace tensorbroker::examples {
namespace {

constexpr float kRate = 0.8f;

// A number in [-1, 1) from a counter: the same on every machine.
float Noise(uint64_t counter) {
  uint64_t x = counter + 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  return static_cast<float>(static_cast<int32_t>(x >> 40) - (1 << 23)) / static_cast<float>(1 << 23);
}

}  // namespace

void FillDataSet(float* data) {
  for (int64_t row = 0; row < kRows; ++row) {
    float* inputs = data + row * kColumns;
    float* targets = inputs + kInputs;
    for (int64_t i = 0; i < kInputs; ++i) inputs[i] = Noise(static_cast<uint64_t>(row * kInputs + i));
    // Target o is the mean of the inputs o, o + kOutputs, o + 2 kOutputs, ... with a sign each.
    for (int64_t o = 0; o < kOutputs; ++o) {
      targets[o] = 0;
      for (int64_t i = o; i < kInputs; i += kOutputs)
        targets[o] += (i / kOutputs) % 2 == 0 ? inputs[i] : -inputs[i];
    }
  }
}

double Gradient(const float* data, int64_t rows, const float* weights, float* gradient) {
  std::fill_n(gradient, kInputs * kOutputs, 0.0f);
  double squares = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* inputs = data + row * kColumns;
    std::array<float, kOutputs> errors;
    for (int64_t o = 0; o < kOutputs; ++o) errors[o] = -inputs[kInputs + o];
    for (int64_t i = 0; i < kInputs; ++i) {
      for (int64_t o = 0; o < kOutputs; ++o) errors[o] += inputs[i] * weights[i * kOutputs + o];
    }
    for (const float error : errors) squares += static_cast<double>(error) * static_cast<double>(error);
    for (int64_t i = 0; i < kInputs; ++i) {
      for (int64_t o = 0; o < kOutputs; ++o) gradient[i * kOutputs + o] += inputs[i] * errors[o];
    }
  }
  for (int64_t w = 0; w < kInputs * kOutputs; ++w) gradient[w] /= static_cast<float>(rows);
  return squares;
}

int64_t FirstRow(int rank, int ranks, int step) {
  const int64_t shard = kRows / ranks;
  return rank * shard + step * kRowsPerStep % (shard - kRowsPerStep + 1);
}

void Descend(const float* gradients, int ranks, int64_t begin, int64_t count, float* weights) {
  for (int64_t w = begin; w < begin + count; ++w) {
    float sum = 0;
    for (int rank = 0; rank < ranks; ++rank) sum += gradients[rank * kInputs * kOutputs + w];
    weights[w] -= kRate / static_cast<float>(ranks) * sum;
  }
}

}  // namespace tensorbroker::examples
