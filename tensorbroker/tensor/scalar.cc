#include "tensorbroker/tensor/scalar.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensorbroker/tensor/convert.h"

namespace tensorbroker {
namespace {

std::string Repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

// A part of a complex number: Python writes 1+2j, without the ".0".
std::string ReprPart(double value) {
  std::string text = Repr(value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

// True where an integer dtype T cannot hold `value`; torch lets negative numbers wrap into unsigned ones.
template <typename T>
bool Overflows(const Scalar::Value& value) {
  using Limits = std::numeric_limits<T>;
  if (const auto* number = std::get_if<int64_t>(&value)) {
    if constexpr (std::is_signed_v<T>) {
      return *number < Limits::min() || *number > Limits::max();
    } else {
      const uint64_t magnitude =
          *number < 0 ? 0 - static_cast<uint64_t>(*number) : static_cast<uint64_t>(*number);
      return magnitude > Limits::max();
    }
  }
  if (const auto* number = std::get_if<uint64_t>(&value))
    return *number > static_cast<uint64_t>(Limits::max());
  if (const auto* number = std::get_if<double>(&value)) {
    const double low =
        std::is_signed_v<T> ? static_cast<double>(Limits::min()) : -static_cast<double>(Limits::max());
    // 2^bits - 1 may round up to 2^bits as a double: compare below the next power of two.
    const double end = 2.0 * static_cast<double>(uint64_t{1} << (Limits::digits - 1));
    return !(*number >= low && *number < end);
  }
  return false;
}

Status CheckHost(std::string_view call, const Header& header) {
  if (header.device().type == DeviceType::kCpu) return OkStatus();
  return FailedPreconditionError(
      fmt::format("{}: the tensor is on {}; copy it to the host first", call, ToString(header.device())));
}

}  // namespace

double Scalar::ToDouble() const { return ToComplex().real(); }

std::complex<double> Scalar::ToComplex() const {
  return std::visit(
      [](const auto& value) -> std::complex<double> {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, std::complex<double>>) {
          return value;
        } else {
          return {static_cast<double>(value), 0.0};
        }
      },
      value_);
}

std::string ToString(const Scalar& scalar) {
  return std::visit(
      [](const auto& value) -> std::string {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          return value ? "True" : "False";
        } else if constexpr (std::is_same_v<T, double>) {
          return Repr(value);
        } else if constexpr (std::is_same_v<T, std::complex<double>>) {
          const std::string imaginary = ReprPart(value.imag()) + "j";
          const bool real_shown = value.real() != 0 || std::signbit(value.real());
          if (!real_shown) return imaginary;
          return fmt::format("({}{}{})", ReprPart(value.real()), imaginary[0] == '-' ? "" : "+", imaginary);
        } else {
          return std::to_string(value);
        }
      },
      scalar.value());
}

Status StoreScalar(const Scalar& scalar, DType dtype, std::byte* bytes) {
  const bool complex = std::holds_alternative<std::complex<double>>(scalar.value());
  bool lost = complex && !IsComplex(dtype) && dtype != DType::kBool;
  if (IsInteger(dtype) && !lost) {
    lost = VisitDType(dtype, [&]<typename T>(std::type_identity<T>) {
      if constexpr (std::is_integral_v<T>) {
        return Overflows<T>(scalar.value());
      } else {
        return false;
      }
    });
  }
  if (lost) {
    return InvalidArgumentError(fmt::format(
        "the value {} cannot be held by {}; choose another value or dtype", ToString(scalar), Name(dtype)));
  }
  std::visit(
      [&](const auto& value) {
        internal::ConvertElements(DTypeOf<std::decay_t<decltype(value)>>(),
                                  reinterpret_cast<const std::byte*>(&value), dtype, bytes, 1);
      },
      scalar.value());
  return OkStatus();
}

Scalar LoadScalar(const std::byte* bytes, DType dtype) {
  return VisitDType(dtype, [&]<typename T>(std::type_identity<T>) -> Scalar {
    if constexpr (std::is_same_v<T, bool>) {
      return Scalar(*bytes != std::byte{0});
    } else {
      T value;
      std::memcpy(&value, bytes, sizeof(T));
      if constexpr (std::is_class_v<T> && sizeof(T) <= 2) {
        return Scalar(static_cast<float>(value));
      } else {
        return Scalar(value);
      }
    }
  });
}

StatusOr<Scalar> Item(const Header& header, std::span<const std::byte> storage) {
  if (header.numel() != 1) {
    return InvalidArgumentError(fmt::format("item: {} has {} elements, not 1; select one first",
                                            ToString(header.shape()), header.numel()));
  }
  TB_RETURN_IF_ERROR(CheckHost("item", header));
  TB_RETURN_IF_ERROR(CheckFits(header, static_cast<int64_t>(storage.size())));
  return LoadScalar(storage.data() + header.offset_bytes(), header.dtype());
}

StatusOr<Scalar> ElementAt(const Header& header, std::span<const std::byte> storage, const Dims& index) {
  if (index.size() != header.shape().size()) {
    return InvalidArgumentError(fmt::format("element: index {} has {} numbers, but {} has {} dimensions",
                                            ToString(index), index.size(), ToString(header.shape()),
                                            header.rank()));
  }
  TB_RETURN_IF_ERROR(CheckHost("element", header));
  TB_RETURN_IF_ERROR(CheckFits(header, static_cast<int64_t>(storage.size())));
  int64_t address = header.offset_bytes();
  for (size_t i = 0; i < index.size(); ++i) {
    const int64_t size = header.shape()[i];
    if (index[i] < -size || index[i] >= size) {
      return OutOfRangeError(
          fmt::format("element: index {} is out of bounds for dimension {} of size {}", index[i], i, size));
    }
    address += (index[i] < 0 ? index[i] + size : index[i]) * header.strides()[i] * header.itemsize();
  }
  return LoadScalar(storage.data() + address, header.dtype());
}

}  // namespace tensorbroker
