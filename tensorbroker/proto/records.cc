#include "tensorbroker/proto/records.h"

namespace tensorbroker {

std::string_view Name(EventKind kind) {
  switch (kind) {
    case EventKind::kUnspecified:
      return "unspecified";
    case EventKind::kCreated:
      return "created";
    case EventKind::kPublished:
      return "published";
    case EventKind::kUnpublished:
      return "unpublished";
    case EventKind::kRenamed:
      return "renamed";
    case EventKind::kAttached:
      return "attached";
    case EventKind::kReleased:
      return "released";
    case EventKind::kFreed:
      return "freed";
    case EventKind::kSessionOpened:
      return "session-opened";
    case EventKind::kSessionEnded:
      return "session-ended";
    case EventKind::kLagged:
      return "lagged";
  }
  return "unspecified";
}

std::string_view Name(StorageState state) {
  switch (state) {
    case StorageState::kUnspecified:
      return "unspecified";
    case StorageState::kHeld:
      return "held";
    case StorageState::kNamed:
      return "named";
    case StorageState::kInFlight:
      return "in-flight";
    case StorageState::kDeleted:
      return "deleted";
    case StorageState::kQuarantined:
      return "quarantined";
  }
  return "unspecified";
}

}  // namespace tensorbroker
