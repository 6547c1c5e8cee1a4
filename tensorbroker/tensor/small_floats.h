// The floating types that C++20 lacks, as their bits: for storage and conversion, not for arithmetic.
//
// Each is a plain value of 1 or 2 bytes. From float they round to nearest, ties to even, as torch 2.15 does; what is too
// large becomes infinity, or the largest number in float8_e4m3fn, which has no infinity. Widening to float is exact.
#ifndef TENSORBROKER_TENSOR_SMALL_FLOATS_H_
#define TENSORBROKER_TENSOR_SMALL_FLOATS_H_

#include <bit>
#include <cstdint>

namespace tensorbroker {
namespace internal {

// Bits of `value` in a format of kExponent and kMantissa bits (sign on top, bias 2^(kExponent-1) - 1).
// kFiniteOnly: the top exponent holds numbers, all ones is NaN, and there is no infinity.
template <int kExponent, int kMantissa, bool kFiniteOnly>
constexpr uint32_t NarrowFloat(float value) {
  static_assert(kExponent < 8);
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kExponentMask = ((1u << kExponent) - 1) << kMantissa;
  // torch's own patterns: all ones in 8 bits, the quiet bit alone in 16.
  constexpr uint32_t kNaN = kExponentMask | (kMantissa < 4 ? (1u << kMantissa) - 1 : 1u << (kMantissa - 1));
  constexpr uint32_t kLargest = (kFiniteOnly ? kNaN : kExponentMask) - 1;
  constexpr uint32_t kOverflow = kFiniteOnly ? kLargest : kExponentMask;
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 31) << (kExponent + kMantissa);
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | kNaN;
  if (magnitude == 0x7F800000u) return sign | kOverflow;
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (magnitude < 0x00800000u) return sign;  // a float's subnormal is zero in a narrower range
  // The significand with its hidden bit; `drop` low bits go. Below the normal range more of them go.
  uint64_t significand = (magnitude & 0x007FFFFFu) | 0x00800000u;
  int drop = 23 - kMantissa;
  int biased = exponent + kBias;
  if (biased <= 0) {
    drop += 1 - biased;
    biased = 0;
  }
  if (drop > 40) return sign;
  const uint64_t half = uint64_t{1} << (drop - 1);
  const uint64_t rest = significand & ((uint64_t{1} << drop) - 1);
  significand >>= drop;
  if (rest > half || (rest == half && (significand & 1) != 0)) ++significand;
  // A carry moves into the exponent by itself: the hidden bit adds one to `biased - 1`.
  const uint64_t result =
      biased == 0 ? significand : (static_cast<uint64_t>(biased - 1) << kMantissa) + significand;
  return sign | (result > kLargest ? kOverflow : static_cast<uint32_t>(result));
}

template <int kExponent, int kMantissa, bool kFiniteOnly>
constexpr float WidenFloat(uint32_t bits) {
  constexpr int kBias = (1 << (kExponent - 1)) - 1;
  constexpr uint32_t kTop = (1u << kExponent) - 1;
  constexpr uint32_t kMantissaMask = (1u << kMantissa) - 1;
  const uint32_t sign = (bits >> (kExponent + kMantissa)) << 31;
  const uint32_t exponent = (bits >> kMantissa) & kTop;
  const uint32_t mantissa = bits & kMantissaMask;
  if (exponent == kTop && (!kFiniteOnly || mantissa == kMantissaMask)) {
    const uint32_t payload = kFiniteOnly ? 0x00400000u : mantissa << (23 - kMantissa);
    return std::bit_cast<float>(sign | 0x7F800000u | payload);
  }
  if (exponent == 0) {
    // mantissa x 2^(1 - bias - kMantissa), exact in a float.
    const float scale = std::bit_cast<float>(static_cast<uint32_t>(127 + 1 - kBias - kMantissa) << 23);
    const float magnitude = static_cast<float>(mantissa) * scale;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | ((exponent + 127 - kBias) << 23) | (mantissa << (23 - kMantissa)));
}

}  // namespace internal

// IEEE binary16: 5 exponent bits, 10 of mantissa; largest 65504.
struct Float16 {
  uint16_t bits = 0;

  Float16() = default;
  explicit constexpr Float16(float value)
      : bits(static_cast<uint16_t>(internal::NarrowFloat<5, 10, false>(value))) {}
  static constexpr Float16 FromBits(uint16_t bits) { return Float16(bits, 0); }
  explicit constexpr operator float() const { return internal::WidenFloat<5, 10, false>(bits); }

 private:
  constexpr Float16(uint16_t bits, int) : bits(bits) {}
};

// The upper half of a float: 8 exponent bits, 7 of mantissa.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  explicit constexpr BFloat16(float value) : bits(Round(std::bit_cast<uint32_t>(value))) {}
  static constexpr BFloat16 FromBits(uint16_t bits) { return BFloat16(bits, 0); }
  explicit constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }

 private:
  constexpr BFloat16(uint16_t bits, int) : bits(bits) {}
  static constexpr uint16_t Round(uint32_t value) {
    if ((value & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<uint16_t>((value >> 31 << 15) | 0x7FC0u);
    return static_cast<uint16_t>((value + 0x7FFFu + ((value >> 16) & 1)) >> 16);
  }
};

// 4 exponent bits, 3 of mantissa, no infinity; largest 448, to which all larger numbers go.
struct Float8E4M3FN {
  uint8_t bits = 0;

  Float8E4M3FN() = default;
  explicit constexpr Float8E4M3FN(float value)
      : bits(static_cast<uint8_t>(internal::NarrowFloat<4, 3, true>(value))) {}
  static constexpr Float8E4M3FN FromBits(uint8_t bits) { return Float8E4M3FN(bits, 0); }
  explicit constexpr operator float() const { return internal::WidenFloat<4, 3, true>(bits); }

 private:
  constexpr Float8E4M3FN(uint8_t bits, int) : bits(bits) {}
};

// 5 exponent bits, 2 of mantissa; largest 57344.
struct Float8E5M2 {
  uint8_t bits = 0;

  Float8E5M2() = default;
  explicit constexpr Float8E5M2(float value)
      : bits(static_cast<uint8_t>(internal::NarrowFloat<5, 2, false>(value))) {}
  static constexpr Float8E5M2 FromBits(uint8_t bits) { return Float8E5M2(bits, 0); }
  explicit constexpr operator float() const { return internal::WidenFloat<5, 2, false>(bits); }

 private:
  constexpr Float8E5M2(uint8_t bits, int) : bits(bits) {}
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_SMALL_FLOATS_H_
