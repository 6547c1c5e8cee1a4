#include "tensorbroker/files/npy_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>

#include "tensorbroker/base/name.h"

namespace tensorbroker {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kVersionEnd = 8;  // magic, major, minor

Status Malformed(std::string_view why) { return InvalidArgumentError(fmt::format(".npy header: {}", why)); }

// The three values of the dictionary, before they are judged.
struct Fields {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<Dims> shape;
};

// A cursor over Python's literal syntax, as much as a header needs: a dictionary of strings, True, False, and tuples of
// integers. Every step moves forward, so that parsing takes linear time.
class Literal {
 public:
  explicit Literal(std::string_view text) : text_(text) {}

  StatusOr<Fields> Dictionary() {
    Fields fields;
    if (!Take('{')) return Malformed("it is not a dictionary");
    while (!Take('}')) {
      TB_ASSIGN_OR_RETURN(const std::string key, String("a key"));
      if (!Take(':')) return Malformed(fmt::format("no ':' after key {}", QuoteForMessage(key)));
      TB_RETURN_IF_ERROR(Value(key, fields));
      if (Take(',')) continue;
      if (!Take('}'))
        return Malformed(fmt::format("no ',' or '}}' after the value of {}", QuoteForMessage(key)));
      break;
    }
    SkipSpace();
    if (at_ != text_.size()) return Malformed("there is more after the dictionary");
    return fields;
  }

 private:
  void SkipSpace() {
    constexpr std::string_view kSpace = " \t\n\r\f";
    at_ = std::min(text_.find_first_not_of(kSpace, at_), text_.size());
  }
  bool Take(char c) {
    SkipSpace();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool TakeWord(std::string_view word) {
    SkipSpace();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // A string without escapes: no header of a plain array has one.
  StatusOr<std::string> String(std::string_view what) {
    SkipSpace();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') return Malformed(fmt::format("{} is not a string", what));
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return Malformed(fmt::format("{} does not end", what));
    std::string text(text_.substr(at_ + 1, end - at_ - 1));
    if (text.find_first_of("\\\n") != std::string::npos)
      return Malformed(fmt::format("{} has an escape", what));
    at_ = end + 1;
    return text;
  }

  // A size; Python 2 wrote 3L.
  StatusOr<int64_t> Size() {
    SkipSpace();
    int64_t size = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), size);
    if (error == std::errc::result_out_of_range)
      return OutOfRangeError(".npy header: a size is over 2^63 - 1");
    if (error != std::errc()) return Malformed("a size in the shape is not an integer");
    if (size < 0) return Malformed(fmt::format("the shape has the negative size {}", size));
    at_ += static_cast<size_t>(end - begin);
    TakeWord("L");
    return size;
  }

  // (), (3,), (2, 3), (2, 3,); not (3), which is a number.
  StatusOr<Dims> Shape() {
    if (!Take('(')) return Malformed("the shape is not a tuple");
    Dims shape;
    while (!Take(')')) {
      TB_ASSIGN_OR_RETURN(const int64_t size, Size());
      shape.push_back(size);
      if (shape.size() > static_cast<size_t>(kMaxRank)) {
        return Malformed(fmt::format("the shape has more than {} dimensions", kMaxRank));
      }
      if (Take(',')) continue;
      if (shape.size() == 1 || !Take(')')) return Malformed("the shape is not a tuple of integers");
      break;
    }
    return shape;
  }

  Status Value(const std::string& key, Fields& fields) {
    const auto twice = [&] { return Malformed(fmt::format("'{}' stands twice", key)); };
    if (key == "descr") {
      if (fields.descr) return twice();
      SkipSpace();
      if (at_ < text_.size() && (text_[at_] == '[' || text_[at_] == '(')) {
        return Malformed("structured arrays have no tensor dtype; save one field");
      }
      TB_ASSIGN_OR_RETURN(fields.descr, String("'descr'"));
    } else if (key == "fortran_order") {
      if (fields.fortran_order) return twice();
      if (TakeWord("True")) {
        fields.fortran_order = true;
      } else if (TakeWord("False")) {
        fields.fortran_order = false;
      } else {
        return Malformed("'fortran_order' is not True or False");
      }
    } else if (key == "shape") {
      if (fields.shape) return twice();
      TB_ASSIGN_OR_RETURN(fields.shape, Shape());
    } else {
      return Malformed(fmt::format("unknown key {}", QuoteForMessage(key)));
    }
    return OkStatus();
  }

  std::string_view text_;
  size_t at_ = 0;
};

struct Kind {
  std::string_view text;  // without the byte order
  DType dtype;
};
constexpr Kind kKinds[] = {
    {"b1", DType::kBool},      {"u1", DType::kUInt8},       {"u2", DType::kUInt16},  {"u4", DType::kUInt32},
    {"u8", DType::kUInt64},    {"i1", DType::kInt8},        {"i2", DType::kInt16},   {"i4", DType::kInt32},
    {"i8", DType::kInt64},     {"f2", DType::kFloat16},     {"f4", DType::kFloat32}, {"f8", DType::kFloat64},
    {"c8", DType::kComplex64}, {"c16", DType::kComplex128},
};

// Bytes without a type, as ml_dtypes leaves them; 0 where `kind` is something else.
int64_t RawItemSize(std::string_view kind) {
  if (kind == "V1" || kind == "f1") return 1;
  return kind == "V2" ? 2 : 0;
}

StatusOr<DType> DTypeFrom(const std::string& descr, std::optional<DType> wanted) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::string_view kind = std::string_view(descr).substr(has_order ? 1 : 0);
  if (const int64_t raw = RawItemSize(kind); raw != 0) {
    if (!wanted) {
      return Malformed(fmt::format(
          "dtype {} is bytes without a type; say which dtype of {} byte(s) they are{}",
          QuoteForMessage(descr), raw, raw == 2 ? " (bfloat16?)" : " (float8_e4m3fn? float8_e5m2?)"));
    }
    if (ItemSize(*wanted) != raw) {
      return Malformed(fmt::format("dtype {} has items of {} byte(s), {} of {}", QuoteForMessage(descr), raw,
                                   Name(*wanted), ItemSize(*wanted)));
    }
    return *wanted;
  }
  for (const Kind& known : kKinds) {
    if (known.text != kind) continue;
    if (wanted && *wanted != known.dtype) {
      return Malformed(fmt::format("the file holds {}, not {}; load it as that and convert",
                                   Name(known.dtype), Name(*wanted)));
    }
    return known.dtype;
  }
  return Malformed(
      fmt::format("dtype {} is not supported; bool, 8 to 64-bit integers, float16 to float64, complex64 "
                  "and complex128 are",
                  QuoteForMessage(descr)));
}

Dims FortranStrides(const Dims& shape) {
  Dims backwards(shape.rbegin(), shape.rend());
  Dims strides = ContiguousStrides(backwards);
  std::reverse(strides.begin(), strides.end());
  return strides;
}

std::string_view AsText(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

StatusOr<int64_t> NpyHeaderBytes(std::span<const std::byte> prelude) {
  const std::string_view text = AsText(prelude);
  if (!text.starts_with(kMagic.substr(0, std::min(text.size(), kMagic.size())))) {
    return InvalidArgumentError("not a .npy file: it does not begin with \\x93NUMPY");
  }
  const auto ends = [] { return DataLossError(".npy file ends inside its header"); };
  if (text.size() < kVersionEnd + 2) return ends();
  const auto byte = [&](size_t i) { return static_cast<int64_t>(static_cast<unsigned char>(text[i])); };
  const int64_t major = byte(6);
  if (major < 1 || major > 3 || byte(7) != 0) {
    return InvalidArgumentError(
        fmt::format(".npy format version {}.{} is not known; 1.0, 2.0 and 3.0 are", major, byte(7)));
  }
  int64_t begin = kVersionEnd + 2;
  int64_t length = byte(8) | byte(9) << 8;
  if (major > 1) {
    if (text.size() < kVersionEnd + 4) return ends();
    begin += 2;
    length |= byte(10) << 16 | byte(11) << 24;
  }
  if (begin + length > kMaxNpyHeaderBytes) {
    return InvalidArgumentError(
        fmt::format(".npy header of {} bytes is refused; at most {} are read", length, kMaxNpyHeaderBytes));
  }
  return begin + length;
}

StatusOr<NpyInfo> ParseNpyHeader(std::span<const std::byte> bytes, std::optional<DType> dtype) {
  TB_ASSIGN_OR_RETURN(const int64_t end, NpyHeaderBytes(bytes));
  if (static_cast<int64_t>(bytes.size()) < end) {
    return DataLossError(fmt::format(".npy file ends inside its header: {} of {} bytes", bytes.size(), end));
  }
  const int64_t begin = bytes[6] == std::byte{1} ? 10 : 12;
  TB_ASSIGN_OR_RETURN(
      Fields fields,
      Literal(AsText(bytes.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin))))
          .Dictionary());
  if (!fields.descr || !fields.fortran_order || !fields.shape) {
    return Malformed("it must have 'descr', 'fortran_order' and 'shape'");
  }
  NpyInfo info;
  info.descr = *std::move(fields.descr);
  info.fortran_order = *fields.fortran_order;
  info.data_offset = end;
  TB_ASSIGN_OR_RETURN(const DType found, DTypeFrom(info.descr, dtype));
  info.big_endian = info.descr[0] == '>' && ItemSize(found) > 1;
  auto header = Header::Contiguous(*fields.shape, found);
  if (header.ok() && info.fortran_order) {
    header = Header::Make({.shape = *fields.shape, .strides = FortranStrides(*fields.shape), .dtype = found});
  }
  if (!header.ok()) return Annotate(header.status(), ".npy header");
  info.header = *std::move(header);
  return info;
}

std::string FormatNpyHeader(const Header& header, bool fortran_order) {
  constexpr size_t kAlign = 64;
  constexpr size_t kGrowthDigits = 21;  // np.save leaves room for the first size to grow to that many digits
  const DType dtype = header.dtype();
  std::string descr = ItemSize(dtype) == 2 ? "<V2" : "|V1";
  for (const Kind& kind : kKinds) {
    if (kind.dtype == dtype) descr = (ItemSize(dtype) == 1 ? "|" : "<") + std::string(kind.text);
  }
  std::string text = fmt::format("{{'descr': '{}', 'fortran_order': {}, 'shape': {}, }}", descr,
                                 fortran_order ? "True" : "False", ToString(header.shape()));
  if (header.rank() > 0) {
    const int64_t grows = fortran_order ? header.shape().back() : header.shape().front();
    text.append(kGrowthDigits - std::to_string(grows).size(), ' ');
  }
  const size_t prelude = kVersionEnd + 2;
  text.append(kAlign - (prelude + text.size() + 1) % kAlign, ' ');
  text += '\n';
  std::string result(kMagic);
  result += {'\x01', '\x00', static_cast<char>(text.size() & 0xFF), static_cast<char>(text.size() >> 8)};
  return result + text;
}

}  // namespace tensorbroker
