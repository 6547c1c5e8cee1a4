#include "tensorbroker/base/ids.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <charconv>
#include <cstdlib>

#include "tensorbroker/base/name.h"

namespace tensorbroker {
namespace {

// The kernel's generator never fails once seeded; a process that cannot have secrets must not go on.
void FillRandom(void* data, size_t size) {
  auto* at = static_cast<uint8_t*>(data);
  while (size > 0) {
    const ssize_t got = getrandom(at, size, 0);
    if (got < 0) {
      if (errno == EINTR) continue;
      std::abort();
    }
    at += got;
    size -= static_cast<size_t>(got);
  }
}

constexpr size_t kEpochDigits = 16;

}  // namespace

namespace internal {

std::string FormatId(uint64_t epoch, uint64_t serial) { return fmt::format("{:016x}-{}", epoch, serial); }

Status ParseId(std::string_view text, uint64_t& epoch, uint64_t& serial) {
  const Status malformed = InvalidArgumentError(
      fmt::format("{} is not an id: ids look like 9f3a61c204d7be15-42", QuoteForMessage(text)));
  if (text.size() < kEpochDigits + 2 || text[kEpochDigits] != '-') return malformed;
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  uint64_t parsed_epoch = 0;
  uint64_t parsed_serial = 0;
  auto [epoch_end, epoch_error] = std::from_chars(begin, begin + kEpochDigits, parsed_epoch, 16);
  if (epoch_error != std::errc{} || epoch_end != begin + kEpochDigits) return malformed;
  auto [serial_end, serial_error] = std::from_chars(begin + kEpochDigits + 1, end, parsed_serial, 10);
  if (serial_error != std::errc{} || serial_end != end) return malformed;
  epoch = parsed_epoch;
  serial = parsed_serial;
  return OkStatus();
}

}  // namespace internal

Token Token::Random() {
  Token token;
  FillRandom(token.bytes_.data(), kBytes);
  return token;
}

StatusOr<Token> Token::FromBytes(std::string_view bytes) {
  if (bytes.size() != kBytes) {
    return InvalidArgumentError(fmt::format("a token has {} bytes, this has {}", kBytes, bytes.size()));
  }
  Token token;
  bytes.copy(reinterpret_cast<char*>(token.bytes_.data()), kBytes);
  return token;
}

bool Token::Matches(const Token& other) const {
  uint8_t difference = 0;
  uint8_t any = 0;
  for (size_t i = 0; i < kBytes; ++i) {
    difference |= static_cast<uint8_t>(bytes_[i] ^ other.bytes_[i]);
    any |= bytes_[i];
  }
  return difference == 0 && any != 0;
}

uint64_t RandomNonZero64() {
  uint64_t value = 0;
  while (value == 0) FillRandom(&value, sizeof value);
  return value;
}

}  // namespace tensorbroker
