// The header of a .npy file: what it says, read strictly, and written as NumPy writes it. No I/O.
#ifndef TENSORBROKER_FILES_NPY_HEADER_H_
#define TENSORBROKER_FILES_NPY_HEADER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// Bytes that tell how long the header is: 6 of magic, 2 of version, 2 (version 1.0) or 4 of length.
inline constexpr int64_t kNpyPreludeBytes = 12;
// Longer headers are refused; those of NumPy's plain arrays are under 1 KiB.
inline constexpr int64_t kMaxNpyHeaderBytes = 65536;

// Plain value.
struct NpyInfo {
  // The elements as they lie in the file: row-major, or column-major where fortran_order; offset 0, in host memory.
  Header header;
  bool fortran_order = false;
  bool big_endian = false;  // elements must be byte-swapped on the way in
  int64_t data_offset = 0;  // bytes of the file before the first element
  std::string descr;        // the dtype as the file words it: "<f4"
};

// How many bytes of a file hold its whole header; `prelude` are its first kNpyPreludeBytes (or fewer: all of the file).
// kInvalidArgument  not a .npy file, of an unknown version, or a header over kMaxNpyHeaderBytes
// kDataLoss         the file ends before it
StatusOr<int64_t> NpyHeaderBytes(std::span<const std::byte> prelude);

// Reads a header of format version 1.0, 2.0 or 3.0 from the first bytes of a file, which must hold all of it. The Python
// literal in it is parsed, never evaluated; keys other than NumPy's three, or one of them twice, are refused.
//
// NumPy has no bfloat16 or float8: ml_dtypes writes them as bare bytes ('<V2', '|V1', and '<f1' for float8_e5m2), so that
// the file does not say which it is. Such a file is read only with `dtype`, of that item size. Elsewhere `dtype` must be
// what the file says.
// kInvalidArgument  not a .npy file, a malformed header, a dtype that this library lacks (object, string, structured,
//                   datetime, float128: named), or one that is not `dtype`
// kOutOfRange       a shape of more bytes than int64_t counts
// kDataLoss         the file ends inside its header
StatusOr<NpyInfo> ParseNpyHeader(std::span<const std::byte> bytes, std::optional<DType> dtype = {});

// The first bytes of a file, byte for byte as np.save writes them (version 1.0), for elements of `header`'s dtype and shape
// that follow in row-major or, where `fortran_order`, column-major order. bfloat16 is written as '<V2', float8 as '|V1':
// np.load gives void elements, and their view(ml_dtypes.bfloat16) the numbers.
std::string FormatNpyHeader(const Header& header, bool fortran_order);

}  // namespace tensorbroker

#endif  // TENSORBROKER_FILES_NPY_HEADER_H_
