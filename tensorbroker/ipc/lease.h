// The lease's frames: what a client and the broker say on the connection that carries descriptors and
// notices.
//
// A value and its bytes; no socket here. docs/guide/protocol.md is the same in prose and changes in the same
// commit. Both sides decode with LeaseDecoder, and trust nothing that it has not checked.
#ifndef TENSORBROKER_IPC_LEASE_H_
#define TENSORBROKER_IPC_LEASE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

inline constexpr uint32_t kLeaseMagic = 0x314C4254;  // "TBL1" in memory
inline constexpr size_t kMaxLeasePayloadBytes = 1024;

enum class LeaseType : uint16_t {
  // Client to broker.
  kBind = 1,        // payload: the 16-byte token of a gRPC reply; answered by kBound or kError
  kGetSegment = 2,  // id: a Segment; argument: 0 read-only, 1 read-write; answered by kSegment or kError
  // Broker to client.
  kBound = 65,
  kSegment =
      66,       // id; argument: size in bytes; one descriptor comes with the frame's first byte: the nth one
                // received belongs to the nth kSegment popped
  kError = 67,  // argument: status code; payload: the text
  // Notices: request 0, no answer.
  kSegmentRetired = 68,  // id
  kFlush = 69,
  kStopping = 70,
};

// The frame's head as it stands in memory, little-endian. Frozen.
struct LeaseHeader {
  uint32_t magic;
  uint16_t type;
  uint16_t payload_bytes;
  uint64_t request;  // the client's number for a request and its answer; 0 for notices
  uint64_t id_epoch;
  uint64_t id_serial;
  uint64_t argument;
};
static_assert(sizeof(LeaseHeader) == 40 && alignof(LeaseHeader) == 8);
static_assert(offsetof(LeaseHeader, magic) == 0 && offsetof(LeaseHeader, type) == 4);
static_assert(offsetof(LeaseHeader, payload_bytes) == 6 && offsetof(LeaseHeader, request) == 8);
static_assert(offsetof(LeaseHeader, id_epoch) == 16 && offsetof(LeaseHeader, id_serial) == 24);
static_assert(offsetof(LeaseHeader, argument) == 32);

inline constexpr size_t kLeaseHeaderBytes = sizeof(LeaseHeader);
inline constexpr size_t kMaxLeaseFrameBytes = kLeaseHeaderBytes + kMaxLeasePayloadBytes;

struct LeaseFrame {
  LeaseType type{};
  uint64_t request = 0;
  uint64_t epoch = 0;
  uint64_t serial = 0;
  uint64_t argument = 0;
  std::string payload;

  friend bool operator==(const LeaseFrame&, const LeaseFrame&) = default;
};

// The frame's bytes. A payload over kMaxLeasePayloadBytes is cut at a UTF-8 boundary (only an error's text
// can be so long).
std::string EncodeLeaseFrame(const LeaseFrame& frame);

// The answer to `request` that carries `status` (not OK).
LeaseFrame LeaseErrorFrame(uint64_t request, const Status& status);
// The Status that a kError frame carries; a code that is none is kInternal.
Status LeaseErrorStatus(const LeaseFrame& frame);

// Bytes in, frames out. Holds at most one read's worth of bytes beyond a frame. Once it refused, it refuses
// for ever: the connection is to be closed. Thread-compatible.
class LeaseDecoder {
 public:
  // `bytes` as they came from the socket.
  // kInvalidArgument    the stream is no lease: bad magic, unknown type, payload too long for its type
  // kResourceExhausted  more than kMaxBufferedBytes wait to be popped
  Status Push(std::string_view bytes);
  // The next whole frame, or nothing yet.
  std::optional<LeaseFrame> Pop();
  // Bytes of a frame that is not whole yet. After the peer closed: not 0 means that it was cut off.
  size_t buffered_bytes() const { return buffer_.size() - start_; }

  static constexpr size_t kMaxBufferedBytes = 64 * 1024;

 private:
  Status CheckHeaders();

  std::string buffer_;
  size_t start_ = 0;    // of the first frame not popped
  size_t checked_ = 0;  // headers before this offset are good
  Status broken_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_LEASE_H_
