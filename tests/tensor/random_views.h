// Random views: one step of a program of views, done twice, by tensorbroker::views and by an index loop.
#ifndef TENSORBROKER_TESTS_TENSOR_RANDOM_VIEWS_H_
#define TENSORBROKER_TESTS_TENSOR_RANDOM_VIEWS_H_

#include <optional>
#include <random>
#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/header.h"
#include "tests/tensor/naive.h"

namespace tensorbroker::naive {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Uniform in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(engine_);
  }
  bool OneIn(int n) { return Between(1, n) == 1; }
  // A shape of rank 0 to 4 with at most 200 elements.
  Dims Shape();
  // `count` as a product of one to three sizes.
  Dims Factors(int64_t count);
  DType AnyDType() { return static_cast<DType>(Between(0, kNumDTypes - 1)); }

 private:
  std::mt19937_64 engine_;
};

struct Step {
  std::string text;                // "Narrow(1, 0, 3)", for the failure message
  StatusOr<Header> header;         // what the library gave
  std::optional<Tensor> expected;  // what the index loop gave; none where the arguments are wrong
  // True for views that only some strides allow: then a FAILED_PRECONDITION is right if `expected` has no
  // strides.
  bool needs_strides = false;
};

// A random view of `header`, whose addresses are `tensor`, with arguments that are wrong now and then.
Step RandomStep(Random& random, const Header& header, const Tensor& tensor);

}  // namespace tensorbroker::naive

#endif  // TENSORBROKER_TESTS_TENSOR_RANDOM_VIEWS_H_
