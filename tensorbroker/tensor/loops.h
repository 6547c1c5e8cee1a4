// How a strided copy runs: nested loops over bytes, sorted and merged. Internal to tensor/.
#ifndef TENSORBROKER_TENSOR_LOOPS_H_
#define TENSORBROKER_TENSOR_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker::internal {

struct Loop {
  int64_t count = 0;
  int64_t to = 0;    // destination bytes from one step to the next; >= 0
  int64_t from = 0;  // source bytes
};

// The loops from the outermost to the innermost, by falling `to`; each walks memory that no single outer loop could. The
// destination is written in rising order.
struct Loops {
  absl::InlinedVector<Loop, kInlineRank> loops;
  int64_t to_start = 0;    // byte offset of the first element in the destination's Storage
  int64_t from_start = 0;  // and in the source's
};

// Loops over all elements of headers of one shape. `source` may be null: then `from` is 0 throughout, and dimensions that
// name an element twice are left out.
Loops MakeLoops(const Header& destination, const Header* source);

// Copies elements of `item` bytes (1, 2, 4, 8 or 16) as they are. The destination's elements are distinct, and none
// shares a byte with the source, but for a single dense run, which moves as by memmove.
void RunCopy(const Loops& loops, int64_t item, std::byte* to, const std::byte* from);

// Copies elements of one dtype to another.
void RunConvert(const Loops& loops, DType to_dtype, std::byte* to, DType from_dtype, const std::byte* from);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_TENSOR_LOOPS_H_
