// What calls take and give, as both ends see it: the same fields as in broker.proto, in C++ types.
#ifndef TENSORBROKER_PROTO_CALLS_H_
#define TENSORBROKER_PROTO_CALLS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/tensor/device.h"
#include "tensorbroker/tensor/header.h"

namespace tensorbroker {

// OpenSession's answer.
struct OpenedSession {
  SessionId id;
  Token token;
  Token lease_token;
  std::string instance;
  uint64_t epoch = 0;
  uint32_t protocol_version = 0;
  std::string broker_version;
  int32_t broker_pid = 0;
};

struct CreateCall {
  std::string token;  // the session's
  uint64_t call_id = 0;
  int64_t size_bytes = 0;
  std::optional<Header> header;  // what it is meant to hold
  Device device;
  Releases releases;  // that ride along
};

struct Created {
  Grant grant;
  bool zeroed = false;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_PROTO_CALLS_H_
