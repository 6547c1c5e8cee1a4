#include "tests/tensor/random_views.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "tensorbroker/tensor/views.h"

namespace tensorbroker::naive {

Dims Random::Shape() {
  Dims shape;
  int64_t count = 1;
  for (int64_t rank = Between(0, 4); rank > 0; --rank) {
    const int64_t size = OneIn(12) ? 0 : Between(1, 5);
    if (count * size > 200) break;
    count *= size;
    shape.push_back(size);
  }
  return shape;
}

Dims Random::Factors(int64_t count) {
  Dims shape;
  for (int64_t parts = Between(0, 2); parts > 0; --parts) {
    int64_t factor = Between(1, 6);
    while (factor > 1 && count % factor != 0) --factor;
    if (count != 0) count /= factor;
    shape.push_back(factor);
  }
  shape.push_back(count);
  return shape;
}

namespace {

// `dim` counted from either end, as [0, rank); none where there is no such dimension.
std::optional<size_t> Dim(const Tensor& tensor, int64_t dim) {
  const int64_t rank = static_cast<int64_t>(tensor.shape.size());
  if (rank == 0) return dim == 0 || dim == -1 ? std::optional<size_t>(0) : std::nullopt;
  if (dim < -rank || dim >= rank) return std::nullopt;
  return static_cast<size_t>(dim < 0 ? dim + rank : dim);
}

std::optional<Tensor> NaivePermute(const Tensor& tensor, const std::vector<size_t>& order) {
  Dims shape;
  for (const size_t from : order) shape.push_back(tensor.shape[from]);
  return Gather(tensor, shape, [&](const Dims& index) {
    Dims source(index.size(), 0);
    for (size_t i = 0; i < order.size(); ++i) source[order[i]] = index[i];
    return source;
  });
}

std::optional<Tensor> NaiveTranspose(const Tensor& tensor, int64_t dim0, int64_t dim1) {
  const auto a = Dim(tensor, dim0);
  const auto b = Dim(tensor, dim1);
  if (!a || !b) return std::nullopt;
  std::vector<size_t> order(tensor.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (!order.empty()) std::swap(order[*a], order[*b]);
  return NaivePermute(tensor, order);
}

std::optional<Tensor> NaiveMoveDim(const Tensor& tensor, int64_t source, int64_t destination) {
  const auto from = Dim(tensor, source);
  const auto to = Dim(tensor, destination);
  if (!from || !to) return std::nullopt;
  std::vector<size_t> order(tensor.shape.size());
  std::iota(order.begin(), order.end(), size_t{0});
  if (order.empty()) return tensor;
  order.erase(order.begin() + static_cast<ptrdiff_t>(*from));
  order.insert(order.begin() + static_cast<ptrdiff_t>(*to), *from);
  return NaivePermute(tensor, order);
}

// The elements `picks` of dimension `dim`.
Tensor Pick(const Tensor& tensor, size_t dim, const std::vector<int64_t>& picks) {
  Dims shape = tensor.shape;
  shape[dim] = static_cast<int64_t>(picks.size());
  return Gather(tensor, shape, [&](const Dims& index) {
    Dims source = index;
    source[dim] = picks[static_cast<size_t>(index[dim])];
    return source;
  });
}

std::optional<Tensor> NaiveNarrow(const Tensor& tensor, int64_t dim, int64_t start, int64_t length) {
  const auto at = Dim(tensor, dim);
  if (!at || tensor.shape.empty()) return std::nullopt;
  const int64_t size = tensor.shape[*at];
  if (start < -size || start > size || length < 0) return std::nullopt;
  if (start < 0) start += size;
  std::vector<int64_t> picks;
  for (int64_t i = 0; i < length; ++i) {
    if (start + i >= size) return std::nullopt;
    picks.push_back(start + i);
  }
  return Pick(tensor, *at, picks);
}

std::optional<Tensor> NaiveSelect(const Tensor& tensor, int64_t dim, int64_t index) {
  const auto at = Dim(tensor, dim);
  if (!at || tensor.shape.empty()) return std::nullopt;
  const int64_t size = tensor.shape[*at];
  if (index < -size || index >= size) return std::nullopt;
  Tensor result = Pick(tensor, *at, {index < 0 ? index + size : index});
  result.shape.erase(result.shape.begin() + static_cast<ptrdiff_t>(*at));
  return result;
}

std::optional<Tensor> NaiveSlice(const Tensor& tensor, int64_t dim, int64_t start, int64_t end,
                                 int64_t step) {
  const auto at = Dim(tensor, dim);
  if (!at || tensor.shape.empty() || step < 1) return std::nullopt;
  const int64_t size = tensor.shape[*at];
  if (start < 0) start = std::max<int64_t>(0, start + size);
  if (end < 0) end += size;
  std::vector<int64_t> picks;
  for (int64_t i = start; i < std::min(end, size); i += step) picks.push_back(i);
  return Pick(tensor, *at, picks);
}

std::optional<Tensor> NaiveUnsqueeze(const Tensor& tensor, int64_t dim) {
  const int64_t rank = static_cast<int64_t>(tensor.shape.size());
  if (dim < -rank - 1 || dim > rank) return std::nullopt;
  Tensor result = tensor;
  result.shape.insert(result.shape.begin() + (dim < 0 ? dim + rank + 1 : dim), 1);
  return result;
}

std::optional<Tensor> NaiveExpand(const Tensor& tensor, const Dims& shape) {
  if (shape.size() < tensor.shape.size()) return std::nullopt;
  const size_t added = shape.size() - tensor.shape.size();
  Dims full = shape;
  for (size_t i = 0; i < full.size(); ++i) {
    const bool keep = full[i] == -1;
    if (i < added ? full[i] < 0 : full[i] < -1) return std::nullopt;
    if (i < added) continue;
    if (keep) full[i] = tensor.shape[i - added];
    if (full[i] != tensor.shape[i - added] && tensor.shape[i - added] != 1) return std::nullopt;
  }
  return Gather(tensor, full, [&](const Dims& index) {
    Dims source;
    for (size_t i = added; i < index.size(); ++i)
      source.push_back(tensor.shape[i - added] == 1 ? 0 : index[i]);
    return source;
  });
}

std::optional<Tensor> NaiveUnfold(const Tensor& tensor, int64_t dim, int64_t size, int64_t step) {
  const auto at = Dim(tensor, dim);
  const bool scalar = tensor.shape.empty();
  if (!at || size < 0 || step < 1 || size > (scalar ? 1 : tensor.shape[*at])) return std::nullopt;
  Dims shape = tensor.shape;
  if (!scalar) {
    shape[*at] = 0;
    while (shape[*at] * step + size <= tensor.shape[*at]) ++shape[*at];
  }
  shape.push_back(size);
  return Gather(tensor, shape, [&](const Dims& index) {
    Dims source(index.begin(), index.end() - 1);
    if (!scalar) source[*at] = index[*at] * step + index.back();
    return source;
  });
}

std::optional<Tensor> NaiveFlip(const Tensor& tensor, const Dims& dims) {
  Tensor result = tensor;
  std::vector<size_t> seen;
  for (const int64_t dim : dims) {
    const auto at = Dim(tensor, dim);
    if (!at || std::count(seen.begin(), seen.end(), *at) > 0) return std::nullopt;
    seen.push_back(*at);
    if (tensor.shape.empty()) continue;
    std::vector<int64_t> picks(static_cast<size_t>(tensor.shape[*at]));
    std::iota(picks.rbegin(), picks.rend(), int64_t{0});
    result = Pick(result, *at, picks);
  }
  return result;
}

std::optional<Tensor> NaiveDiagonal(const Tensor& tensor, int64_t offset, int64_t dim0, int64_t dim1) {
  const auto row = Dim(tensor, dim0);
  const auto column = Dim(tensor, dim1);
  if (!row || !column || *row == *column) return std::nullopt;
  Dims shape;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i != *row && i != *column) shape.push_back(tensor.shape[i]);
  }
  std::vector<std::pair<int64_t, int64_t>> cells;
  for (int64_t i = 0; i < tensor.shape[*row]; ++i) {
    if (i + offset >= 0 && i + offset < tensor.shape[*column]) cells.emplace_back(i, i + offset);
  }
  shape.push_back(static_cast<int64_t>(cells.size()));
  return Gather(tensor, shape, [&](const Dims& index) {
    Dims source;
    size_t next = 0;
    for (size_t i = 0; i < tensor.shape.size(); ++i) {
      const auto& cell = cells[static_cast<size_t>(index.back())];
      source.push_back(i == *row ? cell.first : i == *column ? cell.second : index[next++]);
    }
    return source;
  });
}

// The same addresses in another shape, or none where counts differ. At most one -1.
std::optional<Tensor> NaiveView(const Tensor& tensor, const Dims& shape) {
  const int64_t count = Count(tensor.shape);
  Tensor result{shape, tensor.address};
  int64_t known = 1;
  int64_t* unknown = nullptr;
  for (int64_t& size : result.shape) {
    if (size == -1) {
      if (unknown != nullptr) return std::nullopt;
      unknown = &size;
    } else {
      if (size < 0) return std::nullopt;
      known *= size;
    }
  }
  if (unknown != nullptr) {
    if (known == 0 || count % known != 0) return std::nullopt;
    *unknown = count / known;
  }
  return Count(result.shape) == count ? std::optional(result) : std::nullopt;
}

std::optional<Tensor> NaiveFlatten(const Tensor& tensor, int64_t start_dim, int64_t end_dim) {
  const auto start = Dim(tensor, start_dim);
  const auto end = Dim(tensor, end_dim);
  if (!start || !end || *start > *end) return std::nullopt;
  Dims shape;
  int64_t merged = 1;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i >= *start && i <= *end) {
      merged *= tensor.shape[i];
      if (i == *end) shape.push_back(merged);
    } else {
      shape.push_back(tensor.shape[i]);
    }
  }
  if (tensor.shape.empty()) shape = {1};
  return NaiveView(tensor, shape);
}

// Every element's bytes as elements of `to` bytes. Wrong where they do not lie side by side.
std::optional<Tensor> NaiveViewDType(const Tensor& tensor, int64_t from, int64_t to) {
  if (from == to) return tensor;
  if (tensor.shape.empty()) return std::nullopt;
  Tensor result{tensor.shape, {}};
  if (from > to) {
    result.shape.back() *= from / to;
    for (const int64_t address : tensor.address) {
      for (int64_t part = 0; part < from / to; ++part) result.address.push_back(address + part * to);
    }
    return result;
  }
  const int64_t ratio = to / from;
  if (tensor.shape.back() % ratio != 0) return std::nullopt;
  result.shape.back() /= ratio;
  for (size_t i = 0; i < tensor.address.size(); ++i) {
    if (i % static_cast<size_t>(ratio) == 0) {
      result.address.push_back(tensor.address[i]);
    } else if (tensor.address[i] != tensor.address[i - 1] + from) {
      return std::nullopt;
    }
  }
  return result;
}

}  // namespace

Step RandomStep(Random& random, const Header& header, const Tensor& tensor) {
  const int64_t rank = header.rank();
  const auto dim = [&] {
    return random.OneIn(20) ? rank + random.Between(0, 1) : random.Between(-rank, rank - (rank > 0));
  };
  const auto index = [&] { return random.Between(-6, 6); };
  switch (random.Between(0, 17)) {
    case 0: {
      const int64_t a = dim(), b = dim();
      return {fmt::format("Transpose({}, {})", a, b), views::Transpose(header, a, b),
              NaiveTranspose(tensor, a, b)};
    }
    case 1: {
      std::optional<Tensor> expected;
      if (rank == 2) expected = NaiveTranspose(tensor, 0, 1);
      if (rank < 2) expected = tensor;
      return {"T()", views::T(header), expected};
    }
    case 2: {
      std::vector<size_t> order(static_cast<size_t>(rank));
      std::iota(order.begin(), order.end(), size_t{0});
      for (size_t i = order.size(); i > 1; --i)
        std::swap(order[i - 1], order[static_cast<size_t>(random.Between(0, static_cast<int64_t>(i) - 1))]);
      Dims dims;
      for (const size_t from : order)
        dims.push_back(static_cast<int64_t>(from) - (random.OneIn(2) ? rank : 0));
      std::optional<Tensor> expected = NaivePermute(tensor, order);
      if (rank > 1 && random.OneIn(20)) {
        dims[0] = dims[1];
        expected = std::nullopt;
      }
      return {fmt::format("Permute({})", ToString(dims)), views::Permute(header, dims), expected};
    }
    case 3: {
      const int64_t a = dim(), b = dim();
      return {fmt::format("MoveDim({}, {})", a, b), views::MoveDim(header, a, b), NaiveMoveDim(tensor, a, b)};
    }
    case 4: {
      const int64_t d = dim(), start = index(), length = random.Between(-1, 4);
      return {fmt::format("Narrow({}, {}, {})", d, start, length), views::Narrow(header, d, start, length),
              NaiveNarrow(tensor, d, start, length)};
    }
    case 5: {
      const int64_t d = dim(), i = index();
      return {fmt::format("Select({}, {})", d, i), views::Select(header, d, i), NaiveSelect(tensor, d, i)};
    }
    case 6: {
      const int64_t d = dim(), start = index(), end = index(), step = random.Between(0, 3);
      return {fmt::format("Slice({}, {}, {}, {})", d, start, end, step),
              views::Slice(header, d, start, end, step), NaiveSlice(tensor, d, start, end, step)};
    }
    case 7: {
      const int64_t d = random.Between(-rank - 2, rank + 1);
      return {fmt::format("Unsqueeze({})", d), views::Unsqueeze(header, d), NaiveUnsqueeze(tensor, d)};
    }
    case 8: {
      Tensor expected = tensor;
      expected.shape.erase(std::remove(expected.shape.begin(), expected.shape.end(), 1),
                           expected.shape.end());
      return {"Squeeze()", views::Squeeze(header), expected};
    }
    case 9: {
      const int64_t d = dim();
      std::optional<Tensor> expected;
      if (const auto at = Dim(tensor, d)) {
        expected = tensor;
        if (rank > 0 && tensor.shape[*at] == 1)
          expected->shape.erase(expected->shape.begin() + static_cast<ptrdiff_t>(*at));
      }
      return {fmt::format("Squeeze({})", d), views::Squeeze(header, d), expected};
    }
    case 10: {
      Dims shape = header.shape();
      for (int64_t& size : shape) {
        if (random.OneIn(4)) size = -1;
        if (size == 1 && Count(tensor.shape) < 100) size = random.Between(0, 4);
        if (random.OneIn(40)) size = random.Between(-2, 4);
      }
      if (random.OneIn(3)) shape.insert(shape.begin(), random.Between(-1, 3));
      if (random.OneIn(30) && !shape.empty()) shape.pop_back();
      return {fmt::format("Expand({})", ToString(shape)), views::Expand(header, shape),
              NaiveExpand(tensor, shape)};
    }
    case 11: {
      const int64_t d = dim(), size = random.Between(-1, 4), step = random.Between(0, 3);
      return {fmt::format("Unfold({}, {}, {})", d, size, step), views::Unfold(header, d, size, step),
              NaiveUnfold(tensor, d, size, step)};
    }
    case 12: {
      Dims dims;
      for (int64_t i = 0; i < rank; ++i) {
        if (random.OneIn(2)) dims.push_back(random.OneIn(15) ? 0 : i);
      }
      return {fmt::format("Flip({})", ToString(dims)), views::Flip(header, dims), NaiveFlip(tensor, dims)};
    }
    case 13: {
      const int64_t offset = random.Between(-5, 5), a = dim(), b = dim();
      return {fmt::format("Diagonal({}, {}, {})", offset, a, b), views::Diagonal(header, offset, a, b),
              NaiveDiagonal(tensor, offset, a, b)};
    }
    case 14: {
      Dims shape = random.Factors(Count(tensor.shape));
      if (random.OneIn(3))
        shape[static_cast<size_t>(random.Between(0, static_cast<int64_t>(shape.size()) - 1))] = -1;
      if (random.OneIn(20)) shape.push_back(random.Between(-2, 2));
      return {fmt::format("View({})", ToString(shape)), views::View(header, shape), NaiveView(tensor, shape),
              true};
    }
    case 15: {
      const int64_t a = dim(), b = dim();
      return {fmt::format("Flatten({}, {})", a, b), views::Flatten(header, a, b), NaiveFlatten(tensor, a, b),
              true};
    }
    case 16:
      return {"Detach()", views::Detach(header), tensor};
    default: {
      const DType dtype = random.AnyDType();
      std::optional<Tensor> expected = NaiveViewDType(tensor, header.itemsize(), ItemSize(dtype));
      if (header.offset_bytes() % Alignment(dtype) != 0) expected = std::nullopt;
      return {fmt::format("ViewDType({})", Name(dtype)), views::ViewDType(header, dtype), expected, true};
    }
  }
}

}  // namespace tensorbroker::naive
