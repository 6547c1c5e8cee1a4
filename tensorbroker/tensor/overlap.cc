#include "tensorbroker/tensor/overlap.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <vector>

namespace tensorbroker {
namespace {

// A summand stride * x with low <= x <= high; stride > 0. What it reaches fits into int64_t by the Header's invariant.
struct Term {
  int64_t stride = 0;
  int64_t low = 0;
  int64_t high = 0;
};

constexpr int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && a < 0 ? 1 : 0); }

// Whether the terms can sum to a target: a bounded knapsack, searched from the largest stride down. What the smaller
// terms can still reach leaves few values for each larger one, for strides that views make: mostly one or two.
class Search {
 public:
  explicit Search(std::vector<Term> terms) : terms_(std::move(terms)) {
    std::sort(terms_.begin(), terms_.end(), [](const Term& a, const Term& b) { return a.stride > b.stride; });
    size_t kept = 0;
    for (size_t i = 1; i < terms_.size(); ++i) {  // terms of one stride are one term with both ranges
      if (terms_[i].stride == terms_[kept].stride) {
        terms_[kept].low += terms_[i].low;
        terms_[kept].high += terms_[i].high;
      } else {
        terms_[++kept] = terms_[i];
      }
    }
    if (!terms_.empty()) terms_.resize(kept + 1);
    rest_.resize(terms_.size() + 1);
    for (size_t i = terms_.size(); i-- > 0;) {
      const Term& term = terms_[i];
      overflow_ |= __builtin_add_overflow(rest_[i + 1].low, term.stride * term.low, &rest_[i].low);
      overflow_ |= __builtin_add_overflow(rest_[i + 1].high, term.stride * term.high, &rest_[i].high);
      rest_[i].divisor = std::gcd(rest_[i + 1].divisor, term.stride);
    }
  }

  Overlap Reaches(int64_t target) {
    if (overflow_) return Overlap::kUnknown;
    return Visit(0, target);
  }

 private:
  struct Rest {
    int64_t low = 0;  // what terms i, i + 1, ... can sum to
    int64_t high = 0;
    int64_t divisor = 0;
  };

  Overlap Visit(size_t i, int64_t target) {
    if (target < rest_[i].low || target > rest_[i].high) return Overlap::kNone;
    if (i == terms_.size()) return target == 0 ? Overlap::kSome : Overlap::kNone;
    if (target % rest_[i].divisor != 0) return Overlap::kNone;
    if (--budget_ < 0) return Overlap::kUnknown;
    const Term& term = terms_[i];
    const int64_t first = std::max(term.low, -FloorDiv(rest_[i + 1].high - target, term.stride));
    const int64_t last = std::min(term.high, FloorDiv(target - rest_[i + 1].low, term.stride));
    for (int64_t x = first; x <= last; ++x) {
      const Overlap found = Visit(i + 1, target - term.stride * x);
      if (found != Overlap::kNone) return found;
    }
    return Overlap::kNone;
  }

  std::vector<Term> terms_;
  std::vector<Rest> rest_;
  bool overflow_ = false;
  int64_t budget_ = 20'000;
};

// Headers that reach further than this are not searched, so that sums of two reaches cannot overflow.
constexpr int64_t kFar = int64_t{1} << 61;

}  // namespace

Overlap SelfOverlap(const Header& header) {
  if (header.numel() <= 1 || header.is_contiguous()) return Overlap::kNone;
  std::vector<Term> dims;
  for (int i = 0; i < header.rank(); ++i) {
    if (header.size(i) == 1) continue;
    if (header.stride(i) == 0) return Overlap::kSome;
    dims.push_back({std::abs(header.stride(i)), 0, header.size(i) - 1});
  }
  std::sort(dims.begin(), dims.end(), [](const Term& a, const Term& b) { return a.stride < b.stride; });
  // Nested strides, each past all that the smaller ones reach: the common case.
  int64_t reach = 0;
  bool nested = true;
  for (const Term& dim : dims) {
    nested &= dim.stride > reach;
    reach += dim.stride * dim.high;
  }
  if (nested) return Overlap::kNone;
  if (reach > kFar) return Overlap::kUnknown;
  // Two indices that differ first in dimension k: a difference of at least 1 there, and anything in later ones.
  for (size_t k = 0; k < dims.size(); ++k) {
    std::vector<Term> terms;
    for (size_t i = k; i < dims.size(); ++i)
      terms.push_back({dims[i].stride, i == k ? 1 : -dims[i].high, dims[i].high});
    const Overlap found = Search(std::move(terms)).Reaches(0);
    if (found != Overlap::kNone) return found;
  }
  return Overlap::kNone;
}

Overlap MutualOverlap(const Header& a, const Header& b, int64_t distance_bytes) {
  if (a.numel() == 0 || b.numel() == 0) return Overlap::kNone;
  const ByteRange in_a = ByteExtent(a);
  const ByteRange in_b = ByteExtent(b);
  if (std::max({in_a.end, in_b.end, std::abs(distance_bytes)}) > kFar) return Overlap::kUnknown;
  if (in_a.end <= in_b.begin + distance_bytes || in_b.end + distance_bytes <= in_a.begin)
    return Overlap::kNone;
  // An address in a minus one in b is 0: sums over both headers' dimensions, and over the bytes of an element each.
  std::vector<Term> terms{{1, 0, a.itemsize() - 1}, {1, -(b.itemsize() - 1), 0}};
  int64_t target = b.offset_bytes() + distance_bytes - a.offset_bytes();
  const auto add = [&](const Header& header, bool negated) {
    for (int i = 0; i < header.rank(); ++i) {
      // A dimension of one element adds nothing, and its stride may be any number: not to be multiplied.
      if (header.size(i) <= 1 || header.stride(i) == 0) continue;
      const int64_t stride = header.stride(i) * header.itemsize();
      const bool down = (stride < 0) != negated;
      const int64_t last = header.size(i) - 1;
      terms.push_back({std::abs(stride), down ? -last : 0, down ? 0 : last});
    }
  };
  add(a, false);
  add(b, true);
  return Search(std::move(terms)).Reaches(target);
}

}  // namespace tensorbroker
