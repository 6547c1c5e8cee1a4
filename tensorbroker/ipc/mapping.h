// A range of a file in this process's memory.
#ifndef TENSORBROKER_IPC_MAPPING_H_
#define TENSORBROKER_IPC_MAPPING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

enum class Access : uint8_t { kReadOnly = 0, kReadWrite = 1 };

// Owns one shared mapping; unmaps it at its end. The bytes belong to the file. Move-only. Threads may use the
// bytes as they like; the object itself is thread-compatible. Left out of core dumps (MADV_DONTDUMP).
class Mapping {
 public:
  // Maps `size_bytes` (> 0) from `offset_bytes` (a multiple of the page size) without touching a page.
  // kInvalidArgument    a size of zero or less, or a bad offset
  // kPermissionDenied   kReadWrite of a read-only descriptor, or of a sealed one
  // kResourceExhausted  the address space limit (RLIMIT_AS), vm.max_map_count, or memory: the text says
  // which,
  //                     and how to raise it
  // kFailedPrecondition `fd` is not open, or cannot be mapped
  static StatusOr<Mapping> Map(int fd, int64_t offset_bytes, int64_t size_bytes, Access access);
  static StatusOr<Mapping> Map(const Fd& fd, int64_t offset_bytes, int64_t size_bytes, Access access) {
    return Map(fd.get(), offset_bytes, size_bytes, access);
  }

  Mapping();
  Mapping(Mapping&&) noexcept;
  Mapping& operator=(Mapping&&) noexcept;
  ~Mapping();

  bool valid() const { return data_ != nullptr; }
  // Writable memory only where `access()` is kReadWrite: a store to a read-only one is SIGSEGV.
  void* data() const { return data_; }
  int64_t size_bytes() const { return size_bytes_; }
  Access access() const { return access_; }

 private:
  struct Region;  // boost::interprocess::mapped_region: its header and its exceptions stay in mapping.cc
  std::unique_ptr<Region> region_;
  void* data_ = nullptr;
  int64_t size_bytes_ = 0;
  Access access_ = Access::kReadOnly;
};

int64_t PageSize();

// What mmap's ENOMEM meant here, for `size_bytes` more bytes: a kResourceExhausted that names RLIMIT_AS,
// vm.max_map_count (see `maps_path`, one line a mapping), or memory, and says how to raise it.
Status ExplainMapFailure(int64_t size_bytes, const std::string& maps_path = "/proc/self/maps",
                         const std::string& limit_path = "/proc/sys/vm/max_map_count");

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_MAPPING_H_
