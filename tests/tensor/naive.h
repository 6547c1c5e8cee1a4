// A tensor as a plain list of addresses, and every view as an index loop: slow, obvious, and without strides.
// What the headers are checked against.
#ifndef TENSORBROKER_TESTS_TENSOR_NAIVE_H_
#define TENSORBROKER_TESTS_TENSOR_NAIVE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "tensorbroker/tensor/dims.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker::naive {

struct Tensor {
  Dims shape;
  std::vector<int64_t> address;  // the byte at which each element starts, in row-major order

  friend bool operator==(const Tensor&, const Tensor&) = default;
};

inline int64_t Count(const Dims& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

// Calls visit(index) for each index of `shape` in row-major order.
inline void ForEachIndex(const Dims& shape, const std::function<void(const Dims&)>& visit) {
  if (Count(shape) == 0) return;
  Dims index(shape.size(), 0);
  while (true) {
    visit(index);
    size_t dim = shape.size();
    while (dim > 0 && ++index[dim - 1] == shape[dim - 1]) index[--dim] = 0;
    if (dim == 0) return;
  }
}

inline int64_t At(const Tensor& tensor, const Dims& index) {
  int64_t position = 0;
  for (size_t i = 0; i < index.size(); ++i) position = position * tensor.shape[i] + index[i];
  return tensor.address[static_cast<size_t>(position)];
}

// The addresses that a header's own words (offset and strides) give.
inline Tensor FromHeader(const Header& header) {
  Tensor result{header.shape(), {}};
  ForEachIndex(header.shape(), [&](const Dims& index) {
    int64_t address = header.offset_bytes();
    for (size_t i = 0; i < index.size(); ++i) address += index[i] * header.strides()[i] * header.itemsize();
    result.address.push_back(address);
  });
  return result;
}

// A tensor of `shape` whose element at an index is `base`'s at source(index).
inline Tensor Gather(const Tensor& base, const Dims& shape, const std::function<Dims(const Dims&)>& source) {
  Tensor result{shape, {}};
  ForEachIndex(shape, [&](const Dims& index) { result.address.push_back(At(base, source(index))); });
  return result;
}

// True where some strides give these addresses.
inline bool HasStrides(const Tensor& tensor) {
  if (tensor.address.empty()) return true;
  Dims strides(tensor.shape.size(), 0);
  for (size_t i = 0; i < strides.size(); ++i) {
    if (tensor.shape[i] < 2) continue;
    Dims unit(tensor.shape.size(), 0);
    unit[i] = 1;
    strides[i] = At(tensor, unit) - tensor.address[0];
  }
  bool all = true;
  ForEachIndex(tensor.shape, [&](const Dims& index) {
    int64_t address = tensor.address[0];
    for (size_t i = 0; i < index.size(); ++i) address += index[i] * strides[i];
    all &= address == At(tensor, index);
  });
  return all;
}

}  // namespace tensorbroker::naive

#endif  // TENSORBROKER_TESTS_TENSOR_NAIVE_H_
