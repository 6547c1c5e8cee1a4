// Random programs of views against an index loop.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tensorbroker/tensor/views.h"
#include "tests/tensor/naive.h"
#include "tests/tensor/programs.h"
#include "tests/tensor/random_views.h"

namespace tensorbroker {
namespace {

using naive::Random;
using naive::Step;

// Runs one program of up to 6 views; the text of what is wrong, or nothing.
std::string RunProgram(uint64_t seed) {
  Random random(seed);
  const DType dtype = random.AnyDType();
  const int64_t offset = random.Between(0, 3) * ItemSize(dtype);
  Header header = *Header::Contiguous(random.Shape(), dtype, {}, offset);
  const int64_t storage_nbytes = offset + header.nbytes();
  naive::Tensor tensor = naive::FromHeader(header);
  std::string program = ToString(header);
  const int64_t steps = random.Between(1, 6);
  for (int64_t i = 0; i < steps; ++i) {
    Step step = RandomStep(random, header, tensor);
    program += " -> " + step.text;
    if (!step.header.ok()) {
      const StatusCode code = step.header.status().code();
      const bool strides = step.needs_strides && code == StatusCode::kFailedPrecondition;
      if (strides && step.text.starts_with("ViewDType"))
        continue;  // torch wants stride 1 where others could do
      if (strides && step.expected && !naive::HasStrides(*step.expected)) continue;
      if (!step.expected && !strides) continue;
      if (!step.expected && step.needs_strides) continue;
      return program + ": refused: " + std::string(Message(step.header.status()));
    }
    if (!step.expected) return program + ": wrong arguments were taken";
    header = *step.header;
    tensor = *std::move(step.expected);
    if (naive::FromHeader(header) != tensor) return program + ": gives " + ToString(header);
    if (Status fits = CheckFits(header, storage_nbytes); !fits.ok())
      return program + ": " + std::string(Message(fits));
    if (Header::Make(header.fields()).status() != OkStatus()) return program + ": breaks the invariant";
    const bool dense = naive::FromHeader(*Header::Contiguous(header.shape(), header.dtype(), {},
                                                             header.offset_bytes())) == tensor;
    if (header.is_contiguous() != dense) return program + ": is_contiguous is wrong";
    if (tensor.address.size() > 400) break;
  }
  return {};
}

TEST(Views, RandomProgramsAgreeWithAnIndexLoop) {
  const uint64_t seed = RandomSeed();
  for (uint64_t i = 0; i < kPrograms; ++i) {
    const std::string wrong = RunProgram(seed + i);
    ASSERT_EQ(wrong, "") << "program of seed " << seed + i;
  }
}

}  // namespace
}  // namespace tensorbroker
