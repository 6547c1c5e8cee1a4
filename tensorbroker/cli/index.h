// Python's index text for `--slice`: "0:100", "3", "::2,-1", "..., 0".
#ifndef TENSORBROKER_CLI_INDEX_H_
#define TENSORBROKER_CLI_INDEX_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tensorbroker/base/status.h"
#include "tensorbroker/client/tensor.h"

namespace tensorbroker::cli {

// One part between commas. Plain value.
struct IndexPart {
  enum class Kind : uint8_t { kIndex, kSlice, kEllipsis };

  Kind kind = Kind::kIndex;
  int64_t index = 0;             // kIndex
  std::optional<int64_t> start;  // kSlice; none: from the first
  std::optional<int64_t> end;    // kSlice; none: to the last
  int64_t step = 1;              // kSlice; >= 1

  friend bool operator==(const IndexPart&, const IndexPart&) = default;
};

// kInvalidArgument  not of that form, a step below 1, or two ellipses
StatusOr<std::vector<IndexPart>> ParseIndex(std::string_view text);

// The view that Python's `tensor[parts]` gives; no byte moves.
// kInvalidArgument  more parts than dimensions; kOutOfRange  an index outside its dimension
StatusOr<Tensor> ApplyIndex(const Tensor& tensor, const std::vector<IndexPart>& parts);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_INDEX_H_
