#include "tensorbroker/client/handle.h"

#include <fmt/format.h>

#include <cstdint>
#include <utility>

#include "tensorbroker/base/hash.h"

namespace tensorbroker::internal {

namespace {

constexpr std::string_view kMagic = "TBH";
constexpr char kVersion = '1';
constexpr size_t kChecksumBytes =
    8;  // FNV-1a: against cut and mangled bytes; against forgers there is the token

void PutFixed(uint64_t value, size_t bytes, std::string* out) {
  for (size_t i = 0; i < bytes; ++i) out->push_back(static_cast<char>(value >> (8 * i)));
}

void PutVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

// Takes values from the front; once it ran short it gives zeros and ok() is false.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}

  std::string_view Bytes(size_t count) {
    if (rest_.size() < count) {
      ok_ = false;
      return {};
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  uint64_t Fixed(size_t bytes) {
    uint64_t value = 0;
    const std::string_view taken = Bytes(bytes);
    for (size_t i = 0; i < taken.size(); ++i)
      value |= uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }

  uint64_t Varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(Fixed(1));
      if (shift == 63 && byte > 1) break;  // more than 64 bits
      value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }

  bool ok() const { return ok_; }
  bool done() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace

std::string EncodeHandle(const TransferHandle& handle) {
  const Header& header = handle.header;
  std::string out(kMagic);
  out.push_back(kVersion);
  PutFixed(handle.storage.epoch, 8, &out);
  PutFixed(handle.storage.serial, 8, &out);
  out += handle.token.bytes();
  PutFixed(static_cast<uint64_t>(handle.access), 1, &out);
  PutFixed(static_cast<uint64_t>(header.device().type), 1, &out);
  PutFixed(static_cast<uint16_t>(header.device().index), 2, &out);
  PutFixed(header.requires_grad() ? 1 : 0, 1, &out);
  const std::string_view dtype = Name(header.dtype());
  PutVarint(dtype.size(), &out);
  out += dtype;
  PutVarint(static_cast<uint64_t>(header.rank()), &out);
  PutVarint(static_cast<uint64_t>(header.offset_bytes()), &out);
  for (const int64_t size : header.shape()) PutVarint(static_cast<uint64_t>(size), &out);
  for (const int64_t stride : header.strides()) PutVarint(ZigZag(stride), &out);
  PutFixed(Fnv1a(out), kChecksumBytes, &out);
  return out;
}

StatusOr<TransferHandle> DecodeHandle(std::string_view bytes) {
  if (bytes.size() < kMagic.size() + 1 + kChecksumBytes || bytes.substr(0, kMagic.size()) != kMagic) {
    return InvalidArgumentError(
        fmt::format("Import: these {} bytes are no handle of Tensor::Export", bytes.size()));
  }
  if (const char version = bytes[kMagic.size()]; version != kVersion) {
    if (version > kVersion && version <= '9') {
      return FailedPreconditionError(fmt::format(
          "Import: the handle is of format {}, this library reads format {}: upgrade the importer", version,
          kVersion));
    }
    return InvalidArgumentError("Import: these bytes are no handle of Tensor::Export");
  }
  const std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  if (Reader(bytes.substr(body.size())).Fixed(kChecksumBytes) != Fnv1a(body)) {
    return InvalidArgumentError(
        "Import: the handle was cut short or altered on its way (its checksum differs)");
  }

  const auto malformed = [](std::string_view what) {
    return InvalidArgumentError(fmt::format("Import: the handle is malformed: {}", what));
  };
  Reader in(body.substr(kMagic.size() + 1));
  TransferHandle handle;
  handle.storage.epoch = in.Fixed(8);
  handle.storage.serial = in.Fixed(8);
  const std::string_view token = in.Bytes(Token::kBytes);
  const uint64_t access = in.Fixed(1);
  const uint64_t device_type = in.Fixed(1);
  const uint64_t device_index = in.Fixed(2);
  const uint64_t requires_grad = in.Fixed(1);
  const uint64_t name_bytes = in.Varint();
  const std::string_view name = in.Bytes(name_bytes <= 64 ? static_cast<size_t>(name_bytes) : 0);
  const uint64_t rank = in.Varint();
  const uint64_t offset = in.Varint();
  if (!in.ok()) return malformed("it is too short");
  if (access > 1 || device_type > static_cast<uint64_t>(DeviceType::kCuda) || device_index > INT16_MAX ||
      requires_grad > 1) {
    return malformed("a flag or the device is out of range");
  }
  if (rank > static_cast<uint64_t>(kMaxRank) || offset > INT64_MAX)
    return malformed("rank or offset is out of range");
  const StatusOr<DType> dtype = ParseDType(name);
  if (!dtype.ok()) return malformed("its dtype is unknown here");

  HeaderFields fields;
  for (uint64_t i = 0; i < rank; ++i) fields.shape.push_back(static_cast<int64_t>(in.Varint()));
  for (uint64_t i = 0; i < rank; ++i) fields.strides.push_back(UnZigZag(in.Varint()));
  if (!in.done()) return malformed("its length is not what its rank asks for");
  fields.offset_bytes = static_cast<int64_t>(offset);
  fields.device = {static_cast<DeviceType>(device_type), static_cast<int16_t>(device_index)};
  fields.dtype = *dtype;
  fields.requires_grad = requires_grad == 1;
  StatusOr<Header> header = Header::Make(std::move(fields));
  if (!header.ok()) return malformed(Message(header.status()));
  TB_ASSIGN_OR_RETURN(handle.token, Token::FromBytes(token));
  handle.access = static_cast<GrantAccess>(access);
  handle.header = *std::move(header);
  return handle;
}

}  // namespace tensorbroker::internal
