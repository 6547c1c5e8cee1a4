// A hash that stays the same over processes and versions, for names and checksums. Not against forgers.
#ifndef TENSORBROKER_BASE_HASH_H_
#define TENSORBROKER_BASE_HASH_H_

#include <cstdint>
#include <string_view>

namespace tensorbroker {

constexpr uint64_t Fnv1a(std::string_view bytes) {
  uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

}  // namespace tensorbroker

#endif  // TENSORBROKER_BASE_HASH_H_
