// What operators and watchers see, as plain values. broker.proto and types.proto document each field; these
// are the same fields in C++ types, so that neither the server's rules nor a client's user touches generated
// code.
#ifndef TENSORBROKER_PROTO_RECORDS_H_
#define TENSORBROKER_PROTO_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/tensor/device.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

enum class GrantAccess : uint8_t { kReadOnly = 0, kReadWrite = 1 };

// What a client needs to map a Storage that it now holds.
struct Grant {
  StorageId storage;
  int64_t size_bytes = 0;
  Device device;
  SegmentId segment;  // none where size_bytes is 0
  int64_t segment_offset_bytes = 0;
  int64_t segment_size_bytes = 0;
  GrantAccess access = GrantAccess::kReadOnly;
};

// `grants` grants of one Storage given back.
struct Returned {
  StorageId storage;
  uint64_t grants = 0;
};

// What a client gives back, in one batch: see v1.Releases.
struct Releases {
  uint64_t number = 0;
  std::vector<Returned> returned;
  std::vector<uint64_t> abandoned_calls;

  bool empty() const { return returned.empty() && abandoned_calls.empty(); }
};

enum class StorageState : uint8_t { kUnspecified, kHeld, kNamed, kInFlight, kDeleted, kQuarantined };

struct NameBinding {
  std::string name;
  uint64_t version = 0;
  Header header;
  int64_t published_unix_ns = 0;
  bool persistent = true;
  int64_t expires_unix_ns = 0;  // 0: never
  int32_t publisher_pid = 0;
  bool publisher_alive = false;
};

struct Holder {
  SessionId session;
  int32_t pid = 0;
  uint32_t uid = 0;
  std::string label;
  std::string command;
  int64_t since_unix_ns = 0;
  GrantAccess access = GrantAccess::kReadOnly;
  bool quarantined = false;
};

struct StorageRecord {
  StorageId id;
  int64_t size_bytes = 0;
  int64_t reserved_bytes = 0;
  Device device;
  StorageState state = StorageState::kUnspecified;
  std::optional<Header> header;
  std::vector<NameBinding> names;
  int64_t created_unix_ns = 0;
  int32_t creator_pid = 0;
  uint32_t owner_uid = 0;
  uint32_t holder_count = 0;
  std::vector<Holder> holders;
  int64_t other_uids_holders = 0;
  std::vector<int32_t> in_flight_from_pids;
  SegmentId segment;
  std::string segment_kind;
  bool huge_pages = false;
  std::vector<int32_t> numa_nodes;
};

struct SessionRecord {
  SessionId id;
  int32_t pid = 0;
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::string label;
  std::string command;
  int64_t since_unix_ns = 0;
  uint32_t storages = 0;
  int64_t bytes = 0;
  bool quarantined = false;
  std::vector<StorageId> held;
};

enum class EventKind : uint8_t {
  kUnspecified,
  kCreated,
  kPublished,
  kUnpublished,
  kRenamed,
  kAttached,
  kReleased,
  kFreed,
  kSessionOpened,
  kSessionEnded,
  kLagged,
};

struct Event {
  EventKind kind = EventKind::kUnspecified;
  int64_t unix_ns = 0;
  StorageId storage;
  int64_t size_bytes = 0;
  std::string name;
  std::string new_name;
  uint64_t version = 0;
  SessionId session;
  int32_t pid = 0;
  std::string label;
  uint64_t lost = 0;
};

struct Limit {
  std::string name;
  int64_t value = 0;
  int64_t used = -1;
  std::string note;
};

struct Feature {
  std::string name;
  bool present = false;
  std::string note;
};

struct Gpu {
  std::string uuid;
  std::string name;
  int64_t memory_bytes = 0;
};

struct BrokerInfo {
  std::string version;
  std::string instance;
  uint64_t epoch = 0;
  int32_t pid = 0;
  uint32_t uid = 0;
  int64_t started_unix_ns = 0;
  int64_t capacity_bytes = 0;
  std::string capacity_bound_by;
  int64_t used_bytes = 0;
  int64_t quarantined_bytes = 0;
  uint64_t storages = 0;
  uint64_t names = 0;
  uint64_t sessions = 0;
  std::string memory;
  std::string huge_pages;
  std::vector<Limit> limits;
  std::vector<Feature> features;
  std::vector<Gpu> gpus;
  std::string gpu_note;
  int64_t filesystem_size_bytes = 0;
  int64_t filesystem_free_bytes = 0;
  std::vector<std::string> warnings;
};

// "created", "session-ended", "in-flight": what tensorctl prints, and --json holds.
std::string_view Name(EventKind kind);
std::string_view Name(StorageState state);

}  // namespace tensorbroker

#endif  // TENSORBROKER_PROTO_RECORDS_H_
