#include "tensorbroker/client/storage.h"

#include <sys/mman.h>

#include "tensorbroker/client/held_storage.h"
#include "tensorbroker/ipc/mapping.h"

namespace tensorbroker {

StorageId Storage::id() const { return held_ == nullptr ? StorageId{} : held_->id(); }
int64_t Storage::nbytes() const { return held_ == nullptr ? 0 : held_->size_bytes(); }
Device Storage::device() const { return held_ == nullptr ? kCpu : held_->device(); }
bool Storage::writable() const { return held_ != nullptr && held_->access() == GrantAccess::kReadWrite; }
int64_t Storage::use_count() const { return held_ == nullptr ? 0 : held_->use_count(); }

Status Storage::Map() const {
  if (held_ == nullptr) return FailedPreconditionError("Map: there is no Storage: the Tensor is undefined");
  return held_->Map();
}

Status Storage::Populate() const {
  TB_RETURN_IF_ERROR(Map());
  const auto page = static_cast<uintptr_t>(PageSize());
  const auto begin = reinterpret_cast<uintptr_t>(held_->data()) & ~(page - 1);
  const auto end = reinterpret_cast<uintptr_t>(held_->data()) + static_cast<uintptr_t>(held_->size_bytes());
  // An advice: where a kernel does not take it, the pages come one by one.
  if (held_->data() != nullptr) {
    madvise(reinterpret_cast<void*>(begin), end - begin,
            writable() ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
  }
  return OkStatus();
}

bool Storage::mapped() const {
  return held_ != nullptr && (held_->data() != nullptr || held_->size_bytes() == 0);
}

std::span<const std::byte> Storage::bytes() const {
  if (held_ == nullptr || held_->data() == nullptr) return {};
  return {held_->data(), static_cast<size_t>(held_->size_bytes())};
}

std::span<std::byte> Storage::mutable_bytes() const {
  if (!writable() || held_->data() == nullptr) return {};
  return {held_->data(), static_cast<size_t>(held_->size_bytes())};
}

WeakStorage Storage::weak() const { return WeakStorage(held_); }
Storage WeakStorage::Lock() const { return Storage(held_.lock()); }

}  // namespace tensorbroker
