// A handle on a Storage: untyped bytes that the broker owns and this process has mapped.
#ifndef TENSORBROKER_CLIENT_STORAGE_H_
#define TENSORBROKER_CLIENT_STORAGE_H_

#include <cstddef>
#include <memory>
#include <span>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/tensor/device.h"

namespace tensorbroker {

namespace internal {
class HeldStorage;
}

class WeakStorage;

// A value: copies are handles on the same Storage, and share this process's one hold on it; the last handle
// or Tensor gone gives the hold back (it makes no call and never blocks). May outlive the Client. Thread-safe
// as a shared_ptr is: distinct copies may be used from distinct threads.
class Storage {
 public:
  Storage() = default;  // no Storage: id() is none, bytes() is empty

  StorageId id() const;
  int64_t nbytes() const;
  Device device() const;
  bool writable() const;
  // Handles and Tensors of this process on this Storage.
  int64_t use_count() const;

  // Maps the bytes if they are not yet. Blocks for one round trip on the lease.
  // kResourceExhausted  no address space, mappings or descriptors: names the limit
  // kUnavailable        the broker is gone
  Status Map() const;
  bool mapped() const;
  // Maps, and brings every page into this process's page table: for bytes that will be read or written whole. Touching
  // them one by one costs a page fault for each 4 to 64 KiB. Blocks: some 50 ms a GiB. Codes as Map.
  Status Populate() const;

  // The mapped bytes, nbytes() long; valid while a handle or Tensor of this Storage lives. Empty where not
  // mapped. 64-byte aligned. Other processes may write them at any time.
  std::span<const std::byte> bytes() const;
  // Empty where not writable().
  std::span<std::byte> mutable_bytes() const;

  WeakStorage weak() const;
  explicit operator bool() const { return held_ != nullptr; }

 private:
  friend class internal::HeldStorage;
  friend class WeakStorage;
  explicit Storage(std::shared_ptr<internal::HeldStorage> held) : held_(std::move(held)) {}

  std::shared_ptr<internal::HeldStorage> held_;
};

// Does not keep the Storage alive.
class WeakStorage {
 public:
  WeakStorage() = default;
  // A handle, if one of this process still lives; else none.
  Storage Lock() const;

 private:
  friend class Storage;
  explicit WeakStorage(std::weak_ptr<internal::HeldStorage> held) : held_(std::move(held)) {}
  std::weak_ptr<internal::HeldStorage> held_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_CLIENT_STORAGE_H_
