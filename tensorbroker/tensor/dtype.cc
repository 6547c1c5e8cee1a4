#include "tensorbroker/tensor/dtype.h"

#include <fmt/format.h>

#include <string>

#include "tensorbroker/base/name.h"

namespace tensorbroker {
namespace {

constexpr std::string_view kNames[] = {
#define TB_NAME(enumerator, type, name) name,
    TB_FOR_EACH_DTYPE(TB_NAME)
#undef TB_NAME
};
static_assert(std::size(kNames) == kNumDTypes);

#define TB_CHECK(enumerator, type, name)                                            \
  static_assert(ItemSize(DType::enumerator) == static_cast<int64_t>(sizeof(type))); \
  static_assert(Alignment(DType::enumerator) == static_cast<int64_t>(alignof(type)));
TB_FOR_EACH_DTYPE(TB_CHECK)
#undef TB_CHECK

struct Alias {
  std::string_view text;
  DType dtype;
};
constexpr Alias kAliases[] = {
    {"float", DType::kFloat32},    {"half", DType::kFloat16},       {"double", DType::kFloat64},
    {"long", DType::kInt64},       {"int", DType::kInt32},          {"short", DType::kInt16},
    {"cfloat", DType::kComplex64}, {"cdouble", DType::kComplex128},
};

}  // namespace

std::string_view Name(DType dtype) {
  return IsDType(static_cast<int64_t>(dtype)) ? kNames[static_cast<size_t>(dtype)] : "no dtype";
}

Status CheckDType(DType dtype) {
  if (IsDType(static_cast<int64_t>(dtype))) return OkStatus();
  return InvalidArgumentError(fmt::format("{} is the number of no dtype; they go from 0 to {}",
                                          static_cast<int>(dtype), kNumDTypes - 1));
}

StatusOr<DType> ParseDType(std::string_view text) {
  constexpr std::string_view kPrefix = "torch.";
  std::string_view name = text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text;
  for (int i = 0; i < kNumDTypes; ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  for (const Alias& alias : kAliases) {
    if (alias.text == name) return alias.dtype;
  }
  return InvalidArgumentError(
      fmt::format("dtype {} is not known; use one of: {}", QuoteForMessage(text), fmt::join(kNames, ", ")));
}

}  // namespace tensorbroker
