#include "examples/dataloader/digits.h"

#include <numeric>
#include <random>
#include <utility>

#include "examples/dataloader/options.h"
#include "tensorbroker/files/npy.h"

namespace tensorbroker::examples {
namespace {

constexpr float kWhitest = 16;  // the pixels' largest value

void Shuffle(uint64_t seed, std::vector<int64_t>& indices) {
  std::mt19937_64 random(seed);
  for (size_t i = indices.size(); i > 1; --i) std::swap(indices[i - 1], indices[random() % i]);
}

}  // namespace

void Digits::Fill(std::span<const int64_t> which, float* rows) const {
  for (const int64_t digit : which) {
    for (int64_t p = 0; p < kPixels; ++p)
      *rows++ = static_cast<float>(pixels[digit * kPixels + p]) / kWhitest;
    *rows++ = static_cast<float>(labels[digit]);
  }
}

StatusOr<Digits> ReadDigits(const std::string& folder) {
  TB_ASSIGN_OR_RETURN(NpyReader images, NpyReader::Open(folder + "/digits_images.npy"));
  TB_ASSIGN_OR_RETURN(NpyReader labels, NpyReader::Open(folder + "/digits_labels.npy"));
  const Header& pixels = images.header();
  const Header& names = labels.header();
  if (pixels.dtype() != DType::kUInt8 || pixels.rank() != 3 || pixels.size(1) * pixels.size(2) != kPixels ||
      !pixels.is_contiguous() || names.dtype() != DType::kInt64 || names.shape() != Dims{pixels.size(0)}) {
    return InvalidArgumentError("the digits in " + folder +
                                " should be uint8 (n, 8, 8) and int64 (n,), not " + ToString(pixels) +
                                " and " + ToString(names));
  }
  Digits digits;
  digits.pixels.resize(static_cast<size_t>(pixels.numel()));
  digits.labels.resize(static_cast<size_t>(names.numel()));
  TB_RETURN_IF_ERROR(images.ReadInto(std::as_writable_bytes(std::span(digits.pixels))));
  TB_RETURN_IF_ERROR(labels.ReadInto(std::as_writable_bytes(std::span(digits.labels))));
  for (const int64_t label : digits.labels) {
    if (label < 0 || label >= kClasses)
      return InvalidArgumentError("a label in " + folder + " is not 0 to 9");
  }
  return digits;
}

Split SplitDigits(int64_t count, uint64_t seed) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  Shuffle(seed, order);
  const auto held_out = order.begin() + count / 5;
  return {.train = {held_out, order.end()}, .held_out = {order.begin(), held_out}};
}

std::vector<int64_t> ShuffledFor(int epoch, uint64_t seed, std::vector<int64_t> indices) {
  Shuffle(seed + 1 + static_cast<uint64_t>(epoch), indices);
  return indices;
}

}  // namespace tensorbroker::examples
