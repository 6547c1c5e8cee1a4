#include "tests/tensor/allocations.h"

#include <cstdlib>
#include <new>

#include "tests/support/scale.h"

#if TB_SANITIZED

int64_t tensorbroker::AllocationsSoFar() { return -1; }

#else

static thread_local int64_t allocations = 0;

int64_t tensorbroker::AllocationsSoFar() { return allocations; }

void* operator new(std::size_t size) {
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  std::abort();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif
