// A Storage: untyped bytes on one device, with one id and one owner. The unit of lifetime.
#ifndef TENSORBROKER_STORAGE_STORAGE_H_
#define TENSORBROKER_STORAGE_STORAGE_H_

#include <cstdint>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/storage/allocator.h"
#include "tensorbroker/tensor/device.h"

namespace tensorbroker {

// A resource (move-only, through its Block): its bytes go back when it ends. Holds and names are counted
// elsewhere (server/).
struct Storage {
  StorageId id;
  int64_t size_bytes = 0;  // as asked: what headers are checked against
  Device device;
  AccessDomain domain;
  int64_t created_unix_ns = 0;
  Block block;

  // What it costs: its share of the capacity.
  int64_t reserved_bytes() const {
    return block.segment() == nullptr ? 0 : block.segment()->info().size_bytes;
  }
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_STORAGE_STORAGE_H_
