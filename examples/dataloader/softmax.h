// A softmax classifier, trained by plain stochastic gradient descent. It reads tensors where they lie, by their strides.
#ifndef TENSORBROKER_EXAMPLES_DATALOADER_SOFTMAX_H_
#define TENSORBROKER_EXAMPLES_DATALOADER_SOFTMAX_H_

#include <array>
#include <vector>

#include "examples/dataloader/options.h"
#include "tensorbroker/client/tensor.h"

namespace tensorbroker::examples {

// Deterministic: the same batches in the same order give the same bits.
class Softmax {
 public:
  // One step on `inputs`, float32 [rows, kPixels], and `labels`, float32 [rows]. Gives the mean cross-entropy before it.
  double Step(const Tensor& inputs, const Tensor& labels, float rate);
  // The share of rows whose most likely class is their label.
  double Accuracy(const Tensor& inputs, const Tensor& labels) const;

 private:
  using Scores = std::array<float, kClasses>;
  Scores Score(const float* pixels, int64_t stride) const;

  std::vector<float> weights_ = std::vector<float>(kPixels * kClasses);  // [kPixels, kClasses]
  Scores bias_{};
};

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_DATALOADER_SOFTMAX_H_
