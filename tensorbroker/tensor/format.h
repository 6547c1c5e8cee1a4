// A tensor as torch prints it.
#ifndef TENSORBROKER_TENSOR_FORMAT_H_
#define TENSORBROKER_TENSOR_FORMAT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// torch.set_printoptions' names and defaults.
struct FormatOptions {
  int precision = 4;         // digits after the point
  int64_t threshold = 1000;  // more elements than this are summarised
  int64_t edgeitems = 3;     // at each end of a summarised dimension
  int linewidth = 80;
};

// "tensor([[0., 1.], [2., 3.]], dtype=torch.float64)" with torch's spacing and lines. `storage` is the header's whole Storage.
// Reads each shown element several times; what others write meanwhile may show.
// kOutOfRange          the header reaches outside `storage`
// kFailedPrecondition  it lies on a GPU
StatusOr<std::string> Format(const Header& header, std::span<const std::byte> storage,
                             const FormatOptions& options = {});

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_FORMAT_H_
