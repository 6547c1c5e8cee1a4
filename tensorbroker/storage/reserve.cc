#include "tensorbroker/storage/reserve.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/ipc/mapping.h"
#include "tensorbroker/storage/huge_pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older headers lack it
#endif

namespace tensorbroker {
namespace {

constexpr int64_t kChunkBytes = int64_t{256} << 20;  // some 50 ms: how late a cancellation may be seen
constexpr int64_t kLeastChunkBytes = int64_t{2} << 20;

Status Failed(int err, int64_t size_bytes) {
  return ErrnoStatus(err, fmt::format("reserve {} bytes", size_bytes));
}

bool IsCancelled(const CancelFn& cancelled) { return cancelled && cancelled(); }

Status Cancelled(int64_t size_bytes) {
  return CancelledError(fmt::format("reserve {} bytes: the caller has gone", size_bytes));
}

// Allocates [begin, end) of a file; `size_bytes` is for messages.
Status Allocate(int fd, int64_t begin, int64_t end, int64_t size_bytes, const CancelFn& cancelled) {
  int64_t chunk = kChunkBytes;
  while (begin < end) {
    if (IsCancelled(cancelled)) return Cancelled(size_bytes);
    const int64_t length = std::min(chunk, end - begin);
    // fallocate(2), not posix_fallocate(3), which falls back to writing a byte a page.
    if (fallocate(fd, 0, begin, length) == 0) {
      begin += length;
      continue;
    }
    if (errno != EINTR) return Failed(errno, size_bytes);
    // tmpfs gives the chunk back when a signal comes. Smaller ones finish between the signals of a profiler.
    chunk = std::max(chunk / 2, kLeastChunkBytes);
  }
  return OkStatus();
}

int64_t ThreadMinorFaults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

struct Populated {
  bool done = false;   // false: the kernel cannot (before 5.14)
  int64_t faults = 0;  // one a huge page, or one a small page
};

// Touches [begin, begin + length), whole huge pages, through an advised mapping.
StatusOr<Populated> Populate(int fd, int64_t begin, int64_t length, int64_t size_bytes) {
  TB_ASSIGN_OR_RETURN(const Mapping mapping, Mapping::Map(fd, begin, length, Access::kReadWrite));
  const auto bytes = static_cast<size_t>(length);
  (void)madvise(mapping.data(), bytes, MADV_HUGEPAGE);
  const int64_t before = ThreadMinorFaults();
  while (madvise(mapping.data(), bytes, MADV_POPULATE_WRITE) < 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    if (errno == EINVAL) return Populated{};
    // EFAULT is where a plain store would have been SIGBUS: no page was to be had.
    return Failed(errno == EFAULT ? ENOSPC : errno, size_bytes);
  }
  return Populated{true, ThreadMinorFaults() - before};
}

}  // namespace

StatusOr<Reservation> ReserveFile(int fd, int64_t size_bytes, bool advise_huge, const CancelFn& cancelled) {
  Reservation result;
  int64_t done = 0;
  const int64_t huge_bytes = advise_huge ? TransparentHugePageBytes() : 0;
  if (huge_bytes > 0 && size_bytes >= huge_bytes) {
    int resized;
    do {
      resized = ftruncate(fd, size_bytes);
    } while (resized < 0 && errno == EINTR);
    if (resized < 0) return Failed(errno, size_bytes);
    const int64_t huge_end = size_bytes / huge_bytes * huge_bytes;
    const int64_t chunk = std::max(kChunkBytes / huge_bytes, int64_t{1}) * huge_bytes;
    int64_t faults = 0;
    while (done < huge_end) {
      if (IsCancelled(cancelled)) return Cancelled(size_bytes);
      const int64_t length = std::min(chunk, huge_end - done);
      TB_ASSIGN_OR_RETURN(const Populated populated, Populate(fd, done, length, size_bytes));
      if (!populated.done) break;
      faults += populated.faults;
      done += length;
    }
    result.huge_pages = done == huge_end && faults <= 2 * (huge_end / huge_bytes);
  }
  TB_RETURN_IF_ERROR(Allocate(fd, done, size_bytes, size_bytes, cancelled));
  return result;
}

void PunchFile(int fd, int64_t size_bytes) {
  int result;
  do {
    result = fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, size_bytes);
  } while (result < 0 && errno == EINTR);
}

}  // namespace tensorbroker
