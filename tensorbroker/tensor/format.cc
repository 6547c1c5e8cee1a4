// torch/_tensor_str.py's rules.
#include "tensorbroker/tensor/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <vector>

#include "tensorbroker/tensor/scalar.h"

namespace tensorbroker {
namespace {

std::string Fixed(double value, int precision) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, precision);
}
std::string Scientific(double value, int precision) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}e}", value, precision);
}

// How one column of numbers is written, settled by looking at all of them.
class NumberFormat {
 public:
  explicit NumberFormat(int precision) : precision_(precision) {}

  void Look(double value) {
    if (!std::isfinite(value) || value == 0) return;
    smallest_ = std::min(smallest_, std::fabs(value));
    largest_ = std::max(largest_, std::fabs(value));
    whole_ &= value == std::ceil(value);
    scientific_width_ = std::max(scientific_width_, Scientific(value, precision_).size());
    whole_width_ = std::max(whole_width_, Fixed(value, 0).size() + 1);
    fixed_width_ = std::max(fixed_width_, Fixed(value, precision_).size());
  }
  void LookText(const std::string& text) { width_ = std::max(width_, text.size()); }

  void Settle() {
    if (largest_ == 0) return;
    scientific_ = largest_ / smallest_ > 1000.0 || largest_ > 1.0e8 || (!whole_ && smallest_ < 1.0e-4);
    width_ = scientific_ ? scientific_width_ : whole_ ? whole_width_ : fixed_width_;
  }

  std::string Write(double value) const {
    std::string text = scientific_ ? Scientific(value, precision_) : Fixed(value, whole_ ? 0 : precision_);
    if (!scientific_ && whole_ && std::isfinite(value)) text += '.';
    return Pad(text);
  }
  std::string Pad(const std::string& text) const {
    return text.size() < width_ ? std::string(width_ - text.size(), ' ') + text : text;
  }
  size_t width() const { return width_; }

 private:
  int precision_;
  bool whole_ = true;
  bool scientific_ = false;
  double smallest_ = std::numeric_limits<double>::infinity();
  double largest_ = 0;
  size_t width_ = 1;
  size_t scientific_width_ = 1;
  size_t whole_width_ = 1;
  size_t fixed_width_ = 1;
};

class Printer {
 public:
  Printer(const Header& header, const std::byte* bytes, const FormatOptions& options)
      : header_(header),
        bytes_(bytes),
        options_(options),
        summarise_(header.numel() > options.threshold),
        real_(options.precision),
        imaginary_(options.precision) {}

  std::string Print(size_t indent) {
    Look(0, header_.offset_bytes());
    if (!IsInteger(header_.dtype()) && header_.dtype() != DType::kBool) {
      real_.Settle();
      imaginary_.Settle();
    }
    return Write(0, header_.offset_bytes(), indent);
  }

 private:
  int64_t Stride(int dim) const { return header_.stride(dim) * header_.itemsize(); }
  bool Shortened(int dim) const { return summarise_ && header_.size(dim) > 2 * options_.edgeitems; }

  // Calls visit(index) for the shown indices of `dim`; index -1 stands for those left out.
  template <typename Visit>
  void ForShown(int dim, const Visit& visit) const {
    const int64_t size = header_.size(dim);
    if (!Shortened(dim)) {
      for (int64_t i = 0; i < size; ++i) visit(i);
      return;
    }
    for (int64_t i = 0; i < options_.edgeitems; ++i) visit(i);
    visit(-1);
    for (int64_t i = size - options_.edgeitems; i < size; ++i) visit(i);
  }

  void Look(int dim, int64_t address) {
    if (dim < header_.rank()) {
      ForShown(dim, [&](int64_t i) {
        if (i >= 0) Look(dim + 1, address + i * Stride(dim));
      });
      return;
    }
    const Scalar scalar = LoadScalar(bytes_ + address, header_.dtype());
    if (IsComplex(header_.dtype())) {
      real_.Look(scalar.ToComplex().real());
      imaginary_.Look(scalar.ToComplex().imag());
    } else if (IsFloating(header_.dtype())) {
      real_.Look(scalar.ToDouble());
    } else {
      real_.LookText(ToString(scalar));
    }
  }

  std::string WriteElement(int64_t address) const {
    const Scalar scalar = LoadScalar(bytes_ + address, header_.dtype());
    if (IsComplex(header_.dtype())) {
      std::string imaginary = imaginary_.Write(scalar.ToComplex().imag()) + "j";
      imaginary.erase(0, imaginary.find_first_not_of(' '));
      return real_.Write(scalar.ToComplex().real()) + (imaginary[0] == '-' ? "" : "+") + imaginary;
    }
    return IsFloating(header_.dtype()) ? real_.Write(scalar.ToDouble()) : real_.Pad(ToString(scalar));
  }

  std::string WriteVector(int dim, int64_t address, size_t indent) const {
    const size_t width = real_.width() + 2 + (IsComplex(header_.dtype()) ? imaginary_.width() + 1 : 0);
    const size_t room = static_cast<size_t>(options_.linewidth) > indent
                            ? static_cast<size_t>(options_.linewidth) - indent
                            : 0;
    const size_t a_line = std::max<size_t>(1, room / width);
    std::string text = "[";
    size_t written = 0;
    ForShown(dim, [&](int64_t i) {
      if (written > 0) text += written % a_line == 0 ? ",\n" + std::string(indent + 1, ' ') : ", ";
      text += i < 0 ? " ..." : WriteElement(address + i * Stride(dim));
      ++written;
    });
    return text + "]";
  }

  std::string Write(int dim, int64_t address, size_t indent) const {
    const int left = header_.rank() - dim;
    if (left == 0) return WriteElement(address);
    if (left == 1) return WriteVector(dim, address, indent);
    const std::string separator =
        "," + std::string(static_cast<size_t>(left - 1), '\n') + std::string(indent + 1, ' ');
    std::string text = "[";
    bool first = true;
    ForShown(dim, [&](int64_t i) {
      if (!first) text += separator;
      first = false;
      text += i < 0 ? "..." : Write(dim + 1, address + i * Stride(dim), indent + 1);
    });
    return text + "]";
  }

  const Header& header_;
  const std::byte* bytes_;
  const FormatOptions& options_;
  const bool summarise_;
  NumberFormat real_;
  NumberFormat imaginary_;
};

std::vector<std::string> Suffixes(const Header& header) {
  std::vector<std::string> result;
  const DType dtype = header.dtype();
  bool dtype_shown = dtype != DType::kFloat32;
  if (header.numel() == 0) {
    if (header.rank() != 1) result.push_back("size=" + ToString(header.shape()));
  } else {
    dtype_shown &= dtype != DType::kInt64 && dtype != DType::kBool && dtype != DType::kComplex64;
  }
  if (dtype_shown) result.push_back(fmt::format("dtype=torch.{}", Name(dtype)));
  if (header.requires_grad()) result.push_back("requires_grad=True");
  return result;
}

}  // namespace

StatusOr<std::string> Format(const Header& header, std::span<const std::byte> storage,
                             const FormatOptions& options) {
  if (header.device().type != DeviceType::kCpu) {
    return FailedPreconditionError(
        fmt::format("print: the tensor is on {}; copy it to the host first", ToString(header.device())));
  }
  TB_RETURN_IF_ERROR(CheckFits(header, static_cast<int64_t>(storage.size())));
  constexpr std::string_view kPrefix = "tensor(";
  std::string text(kPrefix);
  text += header.numel() == 0 ? "[]" : Printer(header, storage.data(), options).Print(kPrefix.size());
  // torch counts one more than the last line has.
  const size_t newline = text.rfind('\n');
  size_t line =
      text.size() - (newline == std::string::npos ? 0 : newline) + (newline == std::string::npos ? 2 : 1);
  for (const std::string& suffix : Suffixes(header)) {
    if (line + suffix.size() + 2 > static_cast<size_t>(options.linewidth)) {
      text += ",\n" + std::string(kPrefix.size(), ' ') + suffix;
      line = kPrefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      line += suffix.size() + 2;
    }
  }
  return text + ")";
}

}  // namespace tensorbroker
