// Two steps through the widest type of a kind keep this at 17 + 4 x 17 short loops instead of 17 x 17.
#include "tensorbroker/tensor/convert.h"

#include <cstring>
#include <limits>
#include <type_traits>

namespace tensorbroker::internal {
namespace {

template <typename T>
inline constexpr bool kIsComplex =
    std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

template <typename T>
inline constexpr bool kIsSmallFloat = std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16> ||
                                      std::is_same_v<T, Float8E4M3FN> || std::is_same_v<T, Float8E5M2>;

// What T widens to without loss.
template <typename T>
using Wide = std::conditional_t<
    kIsComplex<T>, std::complex<double>,
    std::conditional_t<std::is_floating_point_v<T> || kIsSmallFloat<T>, double,
                       std::conditional_t<std::is_same_v<T, uint64_t>, uint64_t, int64_t>>>;

// A bool's byte is read as a number: memory that peers write may hold other bytes than 0 and 1.
template <typename T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;

template <typename T>
void Widen(const std::byte* source, Wide<T>* wide, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    Stored<T> value;
    std::memcpy(&value, source + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    if constexpr (std::is_same_v<T, bool>) {
      wide[i] = value != 0 ? 1 : 0;
    } else if constexpr (kIsSmallFloat<T>) {
      wide[i] = static_cast<double>(static_cast<float>(value));
    } else {
      wide[i] = static_cast<Wide<T>>(value);
    }
  }
}

template <typename T, typename W>
Stored<T> NarrowTo(W wide) {
  if constexpr (std::is_same_v<T, bool>) {
    return wide != W{} ? 1 : 0;
  } else if constexpr (kIsComplex<T>) {
    using Part = typename T::value_type;
    if constexpr (kIsComplex<W>) {
      return T(static_cast<Part>(wide.real()), static_cast<Part>(wide.imag()));
    } else {
      return T(static_cast<Part>(wide), Part{0});
    }
  } else if constexpr (kIsComplex<W>) {
    return NarrowTo<T>(wide.real());
  } else if constexpr (kIsSmallFloat<T>) {
    return T(static_cast<float>(wide));
  } else if constexpr (std::is_integral_v<T> && std::is_same_v<W, double>) {
    return static_cast<T>(TruncateToInteger(wide));
  } else {
    return static_cast<T>(wide);
  }
}

template <typename T, typename W>
void Narrow(const W* wide, std::byte* destination, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const Stored<T> value = NarrowTo<T>(wide[i]);
    std::memcpy(destination + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
  }
}

template <typename W>
void NarrowAny(const W* wide, DType to, std::byte* destination, int64_t count) {
  VisitDType(to, [&]<typename T>(std::type_identity<T>) { Narrow<T>(wide, destination, count); });
}

}  // namespace

int64_t TruncateToInteger(double value) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (value >= -kTwo63 && value < kTwo63) return static_cast<int64_t>(value);
  if (value >= kTwo63 && value < 2 * kTwo63) return static_cast<int64_t>(static_cast<uint64_t>(value));
  return std::numeric_limits<int64_t>::min();
}

void ConvertElements(DType from, const std::byte* source, DType to, std::byte* destination, int64_t count) {
  VisitDType(from, [&]<typename T>(std::type_identity<T>) {
    Wide<T> wide[kConvertChunk];
    Widen<T>(source, wide, count);
    NarrowAny(wide, to, destination, count);
  });
}

}  // namespace tensorbroker::internal
