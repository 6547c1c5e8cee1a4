// A .npy file from anywhere: its header is refused, or it keeps its promises; written again, it says the same.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tensorbroker/files/npy_header.h"
#include "tests/fuzz/check.h"

namespace {

using namespace tensorbroker;  // NOLINT: one file, one function after another

void Check(std::span<const std::byte> bytes, std::optional<DType> dtype) {
  const StatusOr<NpyInfo> info = ParseNpyHeader(bytes, dtype);
  if (!info.ok()) return;
  const Header& header = info->header;
  TB_FUZZ_CHECK(info->data_offset > 0 && info->data_offset <= static_cast<int64_t>(bytes.size()));
  TB_FUZZ_CHECK(header.offset_bytes() == 0 && CheckFits(header, header.nbytes()).ok());
  TB_FUZZ_CHECK(!dtype || header.dtype() == *dtype);
  const std::string text = FormatNpyHeader(header, info->fortran_order);
  const StatusOr<NpyInfo> again = ParseNpyHeader(std::as_bytes(std::span(text)), header.dtype());
  TB_FUZZ_CHECK(again.ok() && again->header == header && again->fortran_order == info->fortran_order);
  TB_FUZZ_CHECK(again->data_offset == static_cast<int64_t>(text.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  Check(bytes, std::nullopt);
  Check(bytes, DType::kBFloat16);
  return 0;
}
