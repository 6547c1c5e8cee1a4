// The element types that torch and safetensors share, and what each asks of its bytes.
#ifndef TENSORBROKER_TENSOR_DTYPE_H_
#define TENSORBROKER_TENSOR_DTYPE_H_

#include <complex>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/small_floats.h"

namespace tensorbroker {

// In the order of TB_FOR_EACH_DTYPE. The values are this library's own: the wire has numbers of its own.
enum class DType : uint8_t {
  kBool,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kFloat16,
  kBFloat16,
  kFloat8E4M3FN,
  kFloat8E5M2,
  kFloat32,
  kFloat64,
  kComplex64,
  kComplex128,
};

inline constexpr int kNumDTypes = 17;

// M(enumerator, C++ type, torch's name)
#define TB_FOR_EACH_DTYPE(M)                      \
  M(kBool, bool, "bool")                          \
  M(kUInt8, uint8_t, "uint8")                     \
  M(kUInt16, uint16_t, "uint16")                  \
  M(kUInt32, uint32_t, "uint32")                  \
  M(kUInt64, uint64_t, "uint64")                  \
  M(kInt8, int8_t, "int8")                        \
  M(kInt16, int16_t, "int16")                     \
  M(kInt32, int32_t, "int32")                     \
  M(kInt64, int64_t, "int64")                     \
  M(kFloat16, Float16, "float16")                 \
  M(kBFloat16, BFloat16, "bfloat16")              \
  M(kFloat8E4M3FN, Float8E4M3FN, "float8_e4m3fn") \
  M(kFloat8E5M2, Float8E5M2, "float8_e5m2")       \
  M(kFloat32, float, "float32")                   \
  M(kFloat64, double, "float64")                  \
  M(kComplex64, std::complex<float>, "complex64") \
  M(kComplex128, std::complex<double>, "complex128")

// Bytes of one element, 1 to 16.
constexpr int64_t ItemSize(DType dtype) {
  constexpr int64_t kSizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 1, 1, 4, 8, 8, 16};
  return kSizes[static_cast<int>(dtype)];
}

// What an element's byte offset must be a multiple of: the C++ type's alignment, so 4 for complex64, 8 for
// complex128.
constexpr int64_t Alignment(DType dtype) {
  constexpr int64_t kAlignments[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 1, 1, 4, 8, 4, 8};
  return kAlignments[static_cast<int>(dtype)];
}

constexpr bool IsComplex(DType dtype) { return dtype >= DType::kComplex64; }
// float8 to float64; not complex.
constexpr bool IsFloating(DType dtype) { return dtype >= DType::kFloat16 && dtype <= DType::kFloat64; }
// Signed and unsigned; not bool.
constexpr bool IsInteger(DType dtype) { return dtype >= DType::kUInt8 && dtype <= DType::kInt64; }

// True where `value` is an enumerator: for numbers that came from outside.
constexpr bool IsDType(int64_t value) { return value >= 0 && value < kNumDTypes; }

// torch's name without its prefix: "float32", "bfloat16", "float8_e4m3fn"; "no dtype" for what is no enumerator.
std::string_view Name(DType dtype);

// kInvalidArgument  `dtype` is no enumerator: a number cast to it. Whatever makes a header checks it; all else takes a
//                   checked one.
Status CheckDType(DType dtype);

// Reads what Name wrote; "torch.float32" and torch's aliases ("float", "half", "double", "long", "int",
// "short", "cfloat", "cdouble") too.
// kInvalidArgument  anything else; the message lists the names
StatusOr<DType> ParseDType(std::string_view text);

namespace internal {
template <typename T>
struct DTypeFor;  // undefined: T is no element type
#define TB_DTYPE_FOR(enumerator, type, name)          \
  template <>                                         \
  struct DTypeFor<type> {                             \
    static constexpr DType value = DType::enumerator; \
  };
TB_FOR_EACH_DTYPE(TB_DTYPE_FOR)
#undef TB_DTYPE_FOR
// `long long` and `unsigned long long` are types of their own beside int64_t.
template <>
struct DTypeFor<long long> : DTypeFor<int64_t> {};
template <>
struct DTypeFor<unsigned long long> : DTypeFor<uint64_t> {};
}  // namespace internal

// The DType of a C++ element type: DTypeOf<float>() == DType::kFloat32. Does not compile for other types.
template <typename T>
constexpr DType DTypeOf() {
  return internal::DTypeFor<std::remove_cv_t<T>>::value;
}

// Calls visit(std::type_identity<T>{}) with the C++ type of `dtype`; all calls must give the same type.
template <typename Visit>
constexpr decltype(auto) VisitDType(DType dtype, Visit&& visit) {
  switch (dtype) {
#define TB_VISIT(enumerator, type, name) \
  case DType::enumerator:                \
    return visit(std::type_identity<type>{});
    TB_FOR_EACH_DTYPE(TB_VISIT)
#undef TB_VISIT
  }
  __builtin_unreachable();
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_DTYPE_H_
