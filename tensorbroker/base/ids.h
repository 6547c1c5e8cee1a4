// Ids that are never used twice, and secrets that nobody guesses.
//
// An id is {epoch, serial}: the epoch is random, one a broker run, and part of each id for life; so an id of
// an earlier run never names a thing of this one. Ids are no secrets; a Token is one.
#ifndef TENSORBROKER_BASE_IDS_H_
#define TENSORBROKER_BASE_IDS_H_

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

// Plain value; all zero means "none".
template <typename Tag>
struct Id {
  uint64_t epoch = 0;
  uint64_t serial = 0;

  explicit operator bool() const { return epoch != 0 || serial != 0; }
  friend auto operator<=>(const Id&, const Id&) = default;
};

using StorageId = Id<struct StorageIdTag>;  // a range of bytes, the unit of lifetime
using SegmentId = Id<struct SegmentIdTag>;  // a contiguous piece of memory from the OS
using SessionId = Id<struct SessionIdTag>;  // one client process as the broker knows it

namespace internal {
std::string FormatId(uint64_t epoch, uint64_t serial);
Status ParseId(std::string_view text, uint64_t& epoch, uint64_t& serial);
}  // namespace internal

// "9f3a61c204d7be15-42": the epoch in 16 hexadecimal digits, the serial in decimal.
template <typename Tag>
std::string ToString(const Id<Tag>& id) {
  return internal::FormatId(id.epoch, id.serial);
}

// Reads what ToString wrote.
// kInvalidArgument  `text` is not of that form
template <typename Tag>
Status ParseId(std::string_view text, Id<Tag>* id) {
  return internal::ParseId(text, id->epoch, id->serial);
}

// 128 random bits from the kernel. Compared in constant time.
class Token {
 public:
  static constexpr size_t kBytes = 16;

  Token() = default;  // all zero: matches nothing, itself included
  static Token Random();
  // kInvalidArgument  `bytes` is not kBytes long
  static StatusOr<Token> FromBytes(std::string_view bytes);

  std::string_view bytes() const { return {reinterpret_cast<const char*>(bytes_.data()), kBytes}; }
  bool Matches(const Token& other) const;

 private:
  std::array<uint8_t, kBytes> bytes_{};
};

// A random number from getrandom(2), never 0.
uint64_t RandomNonZero64();

}  // namespace tensorbroker

template <typename Tag>
struct std::hash<tensorbroker::Id<Tag>> {
  size_t operator()(const tensorbroker::Id<Tag>& id) const {
    return static_cast<size_t>(id.epoch ^ (id.serial * 0x9E3779B97F4A7C15u));
  }
};

#endif  // TENSORBROKER_BASE_IDS_H_
