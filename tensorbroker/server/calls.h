// What the Broker's calls take, as plain values: those that proto/calls.h has not.
#ifndef TENSORBROKER_SERVER_CALLS_H_
#define TENSORBROKER_SERVER_CALLS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/calls.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

using CreatedFn = std::function<void(StatusOr<Created>)>;

struct OpenCall {
  std::string token;
  uint64_t call_id = 0;
  std::string name;
  GrantAccess access = GrantAccess::kReadOnly;
};

struct AttachCall {
  std::string token;
  uint64_t call_id = 0;
  StorageId storage;
  GrantAccess access = GrantAccess::kReadOnly;
};

struct ExportCall {
  std::string token;
  uint64_t call_id = 0;
  StorageId storage;
  GrantAccess access = GrantAccess::kReadOnly;
};

struct ImportCall {
  std::string token;
  uint64_t call_id = 0;
  StorageId storage;
  std::string transfer_token;
};

struct PublishCall {
  std::string token;
  std::string name;
  StorageId storage;
  Header header;
  bool replace = false;    // also over a live other session's name
  bool persistent = true;  // false: it goes with the session
  int64_t ttl_ns = 0;      // 0: none
};

struct ListCall {
  std::string token;
  std::string prefix;  // only Storages with a name that begins so
  bool holders = false;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_CALLS_H_
