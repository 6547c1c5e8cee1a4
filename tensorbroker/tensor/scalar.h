// One element as a value, whatever its dtype.
#ifndef TENSORBROKER_TENSOR_SCALAR_H_
#define TENSORBROKER_TENSOR_SCALAR_H_

#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <variant>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/dims.h"
#include "tensorbroker/tensor/header.h"
#include "tensorbroker/tensor/small_floats.h"

namespace tensorbroker {

// Plain value: what Python would hold after tensor.item(). All dtypes fit in without loss.
class Scalar {
 public:
  using Value = std::variant<bool, int64_t, uint64_t, double, std::complex<double>>;

  Scalar() = default;  // False
  Scalar(bool value) : value_(value) {}
  template <std::signed_integral T>
  Scalar(T value) : value_(static_cast<int64_t>(value)) {}
  template <std::unsigned_integral T>
  requires(!std::same_as<T, bool>) Scalar(T value) : value_(static_cast<uint64_t>(value)) {}
  template <std::floating_point T>
  Scalar(T value) : value_(static_cast<double>(value)) {}
  template <std::floating_point T>
  Scalar(std::complex<T> value) : value_(std::complex<double>(value)) {}

  const Value& value() const { return value_; }

  // The nearest double; a complex number's real part; True is 1.
  double ToDouble() const;
  std::complex<double> ToComplex() const;

  friend bool operator==(const Scalar&, const Scalar&) = default;

 private:
  Value value_;
};

// As Python's repr: "True", "-3", "0.1", "1.0", "nan", "(1+2j)".
std::string ToString(const Scalar& scalar);

// `scalar` as one element of `dtype` into `bytes[0 .. ItemSize(dtype))`, rounded as torch's fill_ does: towards zero to
// integers, negative numbers wrap in unsigned ones.
// kInvalidArgument  the value cannot be held: 300 in uint8, NaN in int32, a complex number in a real dtype
Status StoreScalar(const Scalar& scalar, DType dtype, std::byte* bytes);

// The element of `dtype` at `bytes`, of any alignment. A bool is true where its byte is not 0.
Scalar LoadScalar(const std::byte* bytes, DType dtype);

// The one element of a tensor; `storage` are all the bytes of its Storage.
// kInvalidArgument     it has none, or more than one
// kOutOfRange          the header reaches outside `storage`
// kFailedPrecondition  it lies on a GPU
StatusOr<Scalar> Item(const Header& header, std::span<const std::byte> storage);

// The element at `index`, one number a dimension, negative ones from the end.
// kInvalidArgument     `index` is not of the tensor's rank
// kOutOfRange          an index is out of bounds, or the header reaches outside `storage`
// kFailedPrecondition  it lies on a GPU
StatusOr<Scalar> ElementAt(const Header& header, std::span<const std::byte> storage, const Dims& index);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_SCALAR_H_
