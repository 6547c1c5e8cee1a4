// This process's hold on a Storage, as handles share it.
#ifndef TENSORBROKER_CLIENT_HELD_STORAGE_H_
#define TENSORBROKER_CLIENT_HELD_STORAGE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/storage.h"
#include "tensorbroker/proto/records.h"

namespace tensorbroker::internal {

class Session;
struct Hold;

// One a Storage, access and process: all handles and Tensors with that access share it. Its end tells the Session, which
// gives the hold back when it was the last. Keeps the Session alive. Thread-safe.
class HeldStorage {
 public:
  // `hold` lives in the session's HoldTable until this object's end.
  HeldStorage(std::shared_ptr<Session> session, Hold* hold, const Grant& grant, GrantAccess access)
      : session_(std::move(session)), hold_(hold), grant_(grant), access_(access) {}
  ~HeldStorage();
  HeldStorage(const HeldStorage&) = delete;
  HeldStorage& operator=(const HeldStorage&) = delete;

  StorageId id() const { return grant_.storage; }
  int64_t size_bytes() const { return grant_.size_bytes; }
  Device device() const { return grant_.device; }
  GrantAccess access() const { return access_; }
  // The Segment's place; the grant's own access may be wider than access().
  const Grant& grant() const { return grant_; }
  const std::shared_ptr<Session>& session() const { return session_; }
  Hold* hold() const { return hold_; }
  int64_t use_count() const;

  // Null where not mapped.
  std::byte* data() const { return data_.load(std::memory_order_acquire); }
  void set_data(std::byte* data) { data_.store(data, std::memory_order_release); }
  // As Storage::Map.
  Status Map();

  static Storage Handle(std::shared_ptr<HeldStorage> held) { return Storage(std::move(held)); }
  static const std::shared_ptr<HeldStorage>& Of(const Storage& storage) { return storage.held_; }

 private:
  const std::shared_ptr<Session> session_;
  Hold* const hold_;
  const Grant grant_;
  const GrantAccess access_;
  std::atomic<std::byte*> data_{nullptr};
};

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_HELD_STORAGE_H_
