#include "tensorbroker/ipc/lease.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>
#include <utility>

namespace tensorbroker {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are read in place: x86_64 and aarch64");

constexpr size_t kTokenBytes = 16;

LeaseHeader HeaderAt(std::string_view bytes) {
  LeaseHeader header;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header;
}

Status CheckHeader(const LeaseHeader& header) {
  if (header.magic != kLeaseMagic) {
    return InvalidArgumentError(
        fmt::format("lease: a frame begins with {:#010x} instead of {:#010x}: the peer speaks "
                    "another protocol or another version",
                    header.magic, kLeaseMagic));
  }
  size_t least = 0;
  size_t most = 0;
  switch (static_cast<LeaseType>(header.type)) {
    case LeaseType::kBind:
      least = most = kTokenBytes;
      break;
    case LeaseType::kError:
      most = kMaxLeasePayloadBytes;
      break;
    case LeaseType::kGetSegment:
    case LeaseType::kBound:
    case LeaseType::kSegment:
    case LeaseType::kSegmentRetired:
    case LeaseType::kFlush:
    case LeaseType::kStopping:
      break;
    default:
      return InvalidArgumentError(fmt::format("lease: frame type {} is unknown", header.type));
  }
  if (header.payload_bytes < least || header.payload_bytes > most) {
    return InvalidArgumentError(fmt::format("lease: a frame of type {} has {} bytes of payload, not {} to {}",
                                            header.type, header.payload_bytes, least, most));
  }
  return OkStatus();
}

}  // namespace

std::string EncodeLeaseFrame(const LeaseFrame& frame) {
  const std::string_view payload = Utf8Prefix(frame.payload, kMaxLeasePayloadBytes);
  const LeaseHeader header{kLeaseMagic,
                           static_cast<uint16_t>(frame.type),
                           static_cast<uint16_t>(payload.size()),
                           frame.request,
                           frame.epoch,
                           frame.serial,
                           frame.argument};
  std::string bytes(kLeaseHeaderBytes, '\0');
  std::memcpy(bytes.data(), &header, sizeof(header));
  bytes.append(payload);
  return bytes;
}

LeaseFrame LeaseErrorFrame(uint64_t request, const Status& status) {
  LeaseFrame frame;
  frame.type = LeaseType::kError;
  frame.request = request;
  frame.argument = static_cast<uint64_t>(status.code());
  frame.payload = std::string(Message(status));
  return frame;
}

Status LeaseErrorStatus(const LeaseFrame& frame) {
  constexpr uint64_t kLastCode = static_cast<uint64_t>(StatusCode::kUnauthenticated);
  const bool known = frame.argument > 0 && frame.argument <= kLastCode;
  return MakeStatus(known ? static_cast<StatusCode>(frame.argument) : StatusCode::kInternal, frame.payload);
}

Status LeaseDecoder::Push(std::string_view bytes) {
  if (!broken_.ok()) return broken_;
  if (start_ > 0) {
    buffer_.erase(0, start_);
    checked_ -= start_;
    start_ = 0;
  }
  if (bytes.size() > kMaxBufferedBytes - buffer_.size()) {
    return broken_ = ResourceExhaustedError("lease: the peer sends faster than its frames are taken");
  }
  buffer_.append(bytes);
  return broken_ = CheckHeaders();
}

// Looks at each whole header once, so that a bad one is refused before its payload is waited for.
Status LeaseDecoder::CheckHeaders() {
  const std::string_view bytes(buffer_);
  while (bytes.size() >= checked_ + kLeaseHeaderBytes) {
    const LeaseHeader header = HeaderAt(bytes.substr(checked_));
    TB_RETURN_IF_ERROR(CheckHeader(header));
    checked_ += kLeaseHeaderBytes + header.payload_bytes;
  }
  return OkStatus();
}

std::optional<LeaseFrame> LeaseDecoder::Pop() {
  if (!broken_.ok()) return std::nullopt;
  const std::string_view bytes = std::string_view(buffer_).substr(start_);
  if (bytes.size() < kLeaseHeaderBytes) return std::nullopt;
  const LeaseHeader header = HeaderAt(bytes);
  if (bytes.size() < kLeaseHeaderBytes + header.payload_bytes) return std::nullopt;
  start_ += kLeaseHeaderBytes + header.payload_bytes;
  return LeaseFrame{static_cast<LeaseType>(header.type),
                    header.request,
                    header.id_epoch,
                    header.id_serial,
                    header.argument,
                    std::string(bytes.substr(kLeaseHeaderBytes, header.payload_bytes))};
}

}  // namespace tensorbroker
