#include "tensorbroker/ipc/mapping.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/interprocess/detail/os_file_functions.hpp>
#include <boost/interprocess/exceptions.hpp>
#include <boost/interprocess/mapped_region.hpp>
#include <fstream>
#include <string>
#include <utility>

#include "tensorbroker/base/units.h"
#include "tensorbroker/ipc/system_files.h"

namespace tensorbroker {

namespace bip = boost::interprocess;

namespace {

// What mapped_region wants of a memory object.
struct MappableFd {
  bip::mapping_handle_t get_mapping_handle() const { return {fd, false}; }
  bip::mode_t get_mode() const { return mode; }
  int fd;
  bip::mode_t mode;
};

int64_t CountLines(const std::string& path) {
  std::ifstream file(path);
  int64_t lines = 0;
  for (std::string line; std::getline(file, line);) ++lines;
  return lines;
}

// The address space in use, from statm's first field.
int64_t AddressSpaceBytes() { return ReadNumber("/proc/self/statm").value_or(0) * PageSize(); }

}  // namespace

struct Mapping::Region {
  bip::mapped_region region;
};

Mapping::Mapping() = default;
Mapping::~Mapping() = default;

Mapping::Mapping(Mapping&& other) noexcept
    : region_(std::move(other.region_)),
      data_(std::exchange(other.data_, nullptr)),
      size_bytes_(std::exchange(other.size_bytes_, 0)),
      access_(other.access_) {}

Mapping& Mapping::operator=(Mapping&& other) noexcept {
  region_ = std::move(other.region_);
  data_ = std::exchange(other.data_, nullptr);
  size_bytes_ = std::exchange(other.size_bytes_, 0);
  access_ = other.access_;
  return *this;
}

StatusOr<Mapping> Mapping::Map(int fd, int64_t offset_bytes, int64_t size_bytes, Access access) {
  if (size_bytes <= 0)
    return InvalidArgumentError(fmt::format("map {} bytes: a mapping has at least one", size_bytes));
  if (offset_bytes < 0 || offset_bytes % PageSize() != 0) {
    return InvalidArgumentError(
        fmt::format("map at offset {}: it must be a multiple of the page size {}", offset_bytes, PageSize()));
  }
  Mapping mapping;
  int err = 0;
  try {
    const MappableFd mappable{fd, access == Access::kReadWrite ? bip::read_write : bip::read_only};
    mapping.region_ = std::make_unique<Region>(
        Region{bip::mapped_region(mappable, mappable.mode, offset_bytes, static_cast<size_t>(size_bytes))});
  } catch (const bip::interprocess_exception& error) {
    err = error.get_native_error();
    if (err == 0) return InternalError(fmt::format("map {} bytes: {}", size_bytes, error.what()));
  } catch (const std::bad_alloc&) {
    err = ENOMEM;
  }
  if (err == ENOMEM) return ExplainMapFailure(size_bytes);
  // ENODEV: the file has no pages (a socket, a pipe); mmap says EACCES for a pipe opened wrongly too.
  if (err != 0) return ErrnoStatus(err, fmt::format("map {} bytes", size_bytes));
  mapping.data_ = mapping.region_->region.get_address();
  mapping.size_bytes_ = size_bytes;
  mapping.access_ = access;
  // Only advice: a kernel that refuses it leaves the bytes in a core dump, and nothing else changes.
  (void)madvise(mapping.data_, static_cast<size_t>(size_bytes), MADV_DONTDUMP);
  return mapping;
}

int64_t PageSize() {
  static const int64_t page_size = sysconf(_SC_PAGESIZE);
  return page_size;
}

Status ExplainMapFailure(int64_t size_bytes, const std::string& maps_path, const std::string& limit_path) {
  const int64_t maps = CountLines(maps_path);
  const int64_t max_maps = ReadNumber(limit_path).value_or(0);
  // The kernel refuses at the limit itself; what /proc shows beyond it (vsyscall) is not counted.
  if (max_maps > 0 && maps + 1 >= max_maps) {
    return ResourceExhaustedError(
        fmt::format("map {} bytes: this process has {} mappings and vm.max_map_count is {}: drop tensors of "
                    "other Storages, or raise "
                    "it with `sysctl -w vm.max_map_count={}`",
                    size_bytes, maps, max_maps, max_maps * 4));
  }
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    const int64_t used = AddressSpaceBytes();
    const int64_t allowed = static_cast<int64_t>(limit.rlim_cur);
    if (size_bytes > allowed - used) {
      return ResourceExhaustedError(
          fmt::format("map {} bytes: RLIMIT_AS allows this process {} of address space and {} is in use: "
                      "raise it with `ulimit -v`",
                      size_bytes, HumanBytes(allowed), HumanBytes(used)));
    }
  }
  return ResourceExhaustedError(fmt::format(
      "map {} bytes: the kernel has no memory for the mapping (vm.overcommit_memory, or the machine is full)",
      size_bytes));
}

}  // namespace tensorbroker
