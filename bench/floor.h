// The floor's client: what anyone would write in a few lines with the same parts.
#ifndef TENSORBROKER_BENCH_FLOOR_H_
#define TENSORBROKER_BENCH_FLOOR_H_

#include <cstdint>
#include <memory>

#include "bench/process.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::bench {

// Sizes of a call's messages as they are on the wire.
struct Payload {
  int64_t request_bytes = 0;
  int64_t reply_bytes = 0;
};
Payload OpenPayload();    // opening "bench/lookup", a float32 (1024,)
Payload CreatePayload();  // creating 4 KiB

class Floor {
 public:
  static StatusOr<Floor> Start();
  Floor(Floor&&) noexcept;
  ~Floor();

  // One synchronous gRPC call over a Unix socket.
  Status Echo(Payload payload);
  // A descriptor over SCM_RIGHTS: of a new file of `bytes`, filled by posix_fallocate.
  StatusOr<Fd> NewFile(int64_t bytes);
  // Of the same file of `bytes` each time, of which only the first page is filled.
  StatusOr<Fd> SparseFile(int64_t bytes);

 private:
  struct Stub;
  Floor() = default;
  StatusOr<Fd> Fetch(int64_t request);

  std::unique_ptr<Directories> directories_;
  std::unique_ptr<Process> server_;
  std::unique_ptr<Stub> stub_;
  Fd descriptors_;
};

// mmap of a whole file, unmapped at the end.
class FloorMapping {
 public:
  FloorMapping(int fd, int64_t bytes, bool writable, bool populate);
  ~FloorMapping();
  FloorMapping(const FloorMapping&) = delete;
  FloorMapping& operator=(const FloorMapping&) = delete;
  char* data() const { return data_; }  // null: it failed

 private:
  char* data_ = nullptr;
  int64_t bytes_;
};

// Writes, or reads, a byte of each page.
void WritePages(void* data, int64_t bytes);
int64_t ReadPages(const void* data, int64_t bytes);

}  // namespace tensorbroker::bench

#endif  // TENSORBROKER_BENCH_FLOOR_H_
