// Counts this binary's heap allocations, for the claim that views make none.
#ifndef TENSORBROKER_TESTS_TENSOR_ALLOCATIONS_H_
#define TENSORBROKER_TESTS_TENSOR_ALLOCATIONS_H_

#include <cstdint>

namespace tensorbroker {

// Allocations by operator new on this thread so far; -1 under a sanitizer, which has an allocator of its own.
int64_t AllocationsSoFar();

}  // namespace tensorbroker

#endif  // TENSORBROKER_TESTS_TENSOR_ALLOCATIONS_H_
