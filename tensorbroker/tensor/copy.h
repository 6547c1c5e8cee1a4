// Copies between strided tensors in host memory, over spans that the caller gives.
#ifndef TENSORBROKER_TENSOR_COPY_H_
#define TENSORBROKER_TENSOR_COPY_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// Copies source's elements into destination's, which keeps its shape: source is broadcast to it, and converted where
// dtypes differ (see ConvertElements in convert.h), as torch's copy_ does. Each span is a header's whole Storage.
// Moves destination.nbytes() bytes; at memcpy's speed where both are dense, in cache-sized tiles where their orders differ.
// Thread-safe for distinct destinations; bytes that others write meanwhile may arrive torn.
// kInvalidArgument     source cannot be broadcast to destination's shape
// kOutOfRange          a header reaches outside its span
// kFailedPrecondition  the devices differ (both are named) or are no host memory; destination names an element twice
//                      (expand); source and destination share bytes, other than one and the same element by element or as
//                      two dense ranges of one dtype, which move as by memmove
Status CopyStrided(const Header& destination, std::span<std::byte> destination_storage, const Header& source,
                   std::span<const std::byte> source_storage);

}  // namespace tensorbroker

#endif  // TENSORBROKER_TENSOR_COPY_H_
