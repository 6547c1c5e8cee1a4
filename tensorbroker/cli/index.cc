#include "tensorbroker/cli/index.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/text.h"

namespace tensorbroker::cli {
namespace {

bool ParseNumber(std::string_view text, int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size();
}

// "a:b:c" with each of them optional; false where it is no slice.
bool ParseSlice(std::string_view text, IndexPart& part) {
  part.kind = IndexPart::Kind::kSlice;
  for (int field = 0; field < 3; ++field) {
    const size_t colon = text.find(':');
    const std::string_view word = Trim(text.substr(0, colon));
    int64_t number = 0;
    if (!word.empty()) {
      if (!ParseNumber(word, number)) return false;
      if (field == 0) part.start = number;
      if (field == 1) part.end = number;
      if (field == 2) part.step = number;
    }
    if (colon == std::string_view::npos) return true;
    text.remove_prefix(colon + 1);
  }
  return false;
}

}  // namespace

StatusOr<std::vector<IndexPart>> ParseIndex(std::string_view text) {
  std::vector<IndexPart> parts;
  bool ellipsis = false;
  for (size_t begin = 0; begin <= text.size();) {
    size_t end = text.find(',', begin);
    if (end == std::string_view::npos) end = text.size();
    const std::string_view word = Trim(text.substr(begin, end - begin));
    IndexPart part;
    if (word == "...") {
      if (ellipsis)
        return InvalidArgumentError(
            fmt::format("slice {}: only one \"...\" is allowed", QuoteForMessage(text)));
      ellipsis = true;
      part.kind = IndexPart::Kind::kEllipsis;
    } else if (word.find(':') != std::string_view::npos ? !ParseSlice(word, part)
                                                        : !ParseNumber(word, part.index)) {
      return InvalidArgumentError(
          fmt::format("slice {}: {} is no index; write 0:100, 3, ::2 or several with commas",
                      QuoteForMessage(text), QuoteForMessage(word)));
    }
    if (part.step < 1) {
      return InvalidArgumentError(
          fmt::format("slice {}: the step {} is below 1", QuoteForMessage(text), part.step));
    }
    parts.push_back(part);
    begin = end + 1;
  }
  return parts;
}

StatusOr<Tensor> ApplyIndex(const Tensor& tensor, const std::vector<IndexPart>& parts) {
  const int rank = tensor.header().rank();
  int named = 0;
  for (const IndexPart& part : parts) named += part.kind == IndexPart::Kind::kEllipsis ? 0 : 1;
  if (named > rank) {
    return InvalidArgumentError(fmt::format("slice: {} indices for a tensor of {} dimensions, {}", named,
                                            rank, ToString(tensor.shape())));
  }
  Tensor view = tensor;
  int64_t dim = 0;
  for (const IndexPart& part : parts) {
    switch (part.kind) {
      case IndexPart::Kind::kEllipsis:
        dim += rank - named;
        break;
      case IndexPart::Kind::kIndex: {
        TB_ASSIGN_OR_RETURN(view, view.Select(dim, part.index));
        break;
      }
      case IndexPart::Kind::kSlice: {
        TB_ASSIGN_OR_RETURN(view,
                            view.Slice(dim, part.start.value_or(0),
                                       part.end.value_or(std::numeric_limits<int64_t>::max()), part.step));
        ++dim;
        break;
      }
    }
  }
  return view;
}

}  // namespace tensorbroker::cli
