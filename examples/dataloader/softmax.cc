#include "examples/dataloader/softmax.h"

#include <algorithm>
#include <cmath>

namespace tensorbroker::examples {

Softmax::Scores Softmax::Score(const float* pixels, int64_t stride) const {
  Scores scores = bias_;
  for (int64_t p = 0; p < kPixels; ++p) {
    const float x = pixels[p * stride];
    for (int c = 0; c < kClasses; ++c) scores[c] += x * weights_[p * kClasses + c];
  }
  return scores;
}

double Softmax::Step(const Tensor& inputs, const Tensor& labels, float rate) {
  const int64_t rows = inputs.shape()[0];
  const float* x = inputs.data<const float>();
  const float* y = labels.data<const float>();
  const int64_t row_stride = inputs.strides()[0], pixel_stride = inputs.strides()[1];
  std::vector<float> gradient(weights_.size());
  Scores bias_gradient{};
  double loss = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const float* pixels = x + row * row_stride;
    Scores scores = Score(pixels, pixel_stride);
    const float top = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (float& score : scores) sum += score = std::exp(score - top);
    const int label = static_cast<int>(y[row * labels.strides()[0]]);
    loss -= std::log(scores[label] / sum);
    for (int c = 0; c < kClasses; ++c) {
      const float error = scores[c] / sum - (c == label ? 1.0f : 0.0f);
      bias_gradient[c] += error;
      for (int64_t p = 0; p < kPixels; ++p) gradient[p * kClasses + c] += error * pixels[p * pixel_stride];
    }
  }
  const float scale = rate / static_cast<float>(rows);
  for (size_t i = 0; i < weights_.size(); ++i) weights_[i] -= scale * gradient[i];
  for (int c = 0; c < kClasses; ++c) bias_[c] -= scale * bias_gradient[c];
  return loss / static_cast<double>(rows);
}

double Softmax::Accuracy(const Tensor& inputs, const Tensor& labels) const {
  const int64_t rows = inputs.shape()[0];
  const float* x = inputs.data<const float>();
  const float* y = labels.data<const float>();
  int64_t right = 0;
  for (int64_t row = 0; row < rows; ++row) {
    const Scores scores = Score(x + row * inputs.strides()[0], inputs.strides()[1]);
    const auto best = std::max_element(scores.begin(), scores.end()) - scores.begin();
    right += best == static_cast<int>(y[row * labels.strides()[0]]);
  }
  return static_cast<double>(right) / static_cast<double>(rows);
}

}  // namespace tensorbroker::examples
