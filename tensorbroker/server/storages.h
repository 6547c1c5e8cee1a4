// The table of live Storages: what each costs, whose it is, and who keeps it.
#ifndef TENSORBROKER_SERVER_STORAGES_H_
#define TENSORBROKER_SERVER_STORAGES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/server/limits.h"
#include "tensorbroker/server/sessions.h"
#include "tensorbroker/storage/storage.h"

namespace tensorbroker {

// A live Storage and what keeps it. Counted in the broker's heap only, never in memory that a client can write.
struct StorageEntry {
  uint64_t serial() const { return storage.id.serial; }
  bool kept() const { return !holders.empty() || !names.empty() || transfers > 0 || keeps > 0; }
  bool only_quarantined() const {
    return live_holders == 0 && !holders.empty() && names.empty() && transfers == 0;
  }
  uint32_t quarantined_holders() const { return static_cast<uint32_t>(holders.size()) - live_holders; }
  StorageState state() const;

  Storage storage;
  std::shared_ptr<const Header> header;  // as created; null: untyped
  int32_t creator_pid = 0;
  uint32_t live_holders = 0;            // of `holders`, those whose process lives
  uint32_t foreign_holders = 0;         // of `holders`, those of another uid than the owner's: root's
  uint32_t live_foreign_holders = 0;    // of those, those whose process lives
  std::vector<uint64_t> holders;        // serials of sessions, sorted; quarantined ones too
  std::vector<std::string_view> names;  // the catalog's own keys
  uint32_t transfers = 0;               // transfer holds
  uint32_t keeps = 0;                   // Keeps that live
  bool deleted = false;                 // cannot be attached any more
  bool counted_as_quarantined = false;  // Storages' own
};

// Keeps an entry in the table while its names change hands. Whoever made it looks whether the entry is still used after its
// end. Under one hold of the Broker's lock, so nobody sees it.
class Keep {
 public:
  explicit Keep(StorageEntry& entry) : entry_(entry) { ++entry_.keeps; }
  ~Keep() { --entry_.keeps; }
  Keep(const Keep&) = delete;
  Keep& operator=(const Keep&) = delete;

 private:
  StorageEntry& entry_;
};

// Owns the entries; pointers are good until Remove. Thread-compatible: the Broker's lock guards it. Nothing here is linear
// in the number of Storages.
class Storages {
 public:
  explicit Storages(const Limits& limits) : limits_(limits) {}

  // Counts a Storage of `uid` that is about to be made; Cancel or Insert ends that.
  // kResourceExhausted  the uid has as many as the limit says
  Status Announce(uid_t uid);
  void Cancel(uid_t uid);
  StorageEntry* Insert(StorageEntry entry);
  // Takes the entry, whose Storage gives its bytes back when it is destroyed: slow, so not under the lock.
  Storage Remove(StorageEntry& entry);

  StorageEntry* Find(StorageId id, uint64_t epoch);
  StorageEntry* Find(uint64_t serial);
  // The first with a serial over `serial`; null at the end.
  StorageEntry* After(uint64_t serial);
  size_t size() const { return entries_.size(); }
  size_t CountOf(uid_t uid) const;

  // True where `session` holds a Storage in the Segment, writable where `access` asks for it. Gives the Segment.
  // kNotFound          no such Segment, or the session holds nothing in it
  // kPermissionDenied  held read-only, asked read-write
  StatusOr<std::shared_ptr<Segment>> SegmentFor(const Session& session, SegmentId id, GrantAccess access);

  // ---- holds
  // Adds one grant to the session's hold. True where that made the hold.
  bool AddGrant(Session& session, StorageEntry& entry, GrantAccess access, int64_t unix_ns);
  // Gives `grants` back; what is surplus is ignored. True where that ended the hold.
  bool ReturnGrants(Session& session, StorageEntry& entry, uint64_t grants);
  void EndHold(Session& session, StorageEntry& entry);
  // The session's process is dead: from here on it counts for no holder, but its bytes stay.
  void QuarantineHold(Session& session, StorageEntry& entry);

  // To be called after each change of names, transfers and holds (those above do it themselves).
  void Recount(StorageEntry& entry);
  int64_t quarantined_bytes() const { return quarantined_bytes_; }

  // For messages: the largest Storages that `uid` may see, and the bytes of the rest's owners.
  struct Top {
    std::vector<const StorageEntry*> largest;
    int64_t other_uids_bytes = 0;
  };
  Top Largest(uid_t uid, size_t count) const;

 private:
  struct Account {  // of one uid
    size_t announced = 0;
    int64_t bytes = 0;
    std::set<std::pair<int64_t, uint64_t>> by_size;  // {reserved bytes, serial}
  };

  const Limits& limits_;
  std::map<uint64_t, StorageEntry> entries_;
  std::set<std::pair<uint64_t, uint64_t>> by_segment_;  // {segment's serial, Storage's serial}
  std::unordered_map<uid_t, Account> accounts_;
  int64_t bytes_ = 0;
  int64_t quarantined_bytes_ = 0;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_STORAGES_H_
