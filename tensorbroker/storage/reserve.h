// Reserving a file's pages: all of them or an error, never a file that faults with SIGBUS later.
#ifndef TENSORBROKER_STORAGE_RESERVE_H_
#define TENSORBROKER_STORAGE_RESERVE_H_

#include <cstdint>

#include "tensorbroker/base/status.h"
#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {

struct Reservation {
  bool huge_pages = false;  // what was got, by the count of page faults
};

// Gives the new, empty file behind `fd` `size_bytes` (> 0) of zeroed pages of its own. With `advise_huge`
// whole huge pages are touched through an advised mapping (fallocate would take small pages), the rest is
// allocated. On failure the caller removes the file, which gives back what was reserved so far.
// kResourceExhausted  no space, no memory (the text holds no path)
// kCancelled          `cancelled` said so
// kUnimplemented      the filesystem cannot reserve
StatusOr<Reservation> ReserveFile(int fd, int64_t size_bytes, bool advise_huge, const CancelFn& cancelled);

// Gives the pages back although the file may be mapped. Errors are of no use to anyone: the file goes next.
void PunchFile(int fd, int64_t size_bytes);

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_RESERVE_H_
