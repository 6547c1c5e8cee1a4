#include "tensorbroker/server/transfers.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tensorbroker {
namespace {

constexpr auto kFirst = uint64_t{0};

void Round(std::array<uint64_t, 4>& v) {
  v[0] += v[1];
  v[1] = std::rotl(v[1], 13) ^ v[0];
  v[0] = std::rotl(v[0], 32);
  v[2] += v[3];
  v[3] = std::rotl(v[3], 16) ^ v[2];
  v[0] += v[3];
  v[3] = std::rotl(v[3], 21) ^ v[0];
  v[2] += v[1];
  v[1] = std::rotl(v[1], 17) ^ v[2];
  v[2] = std::rotl(v[2], 32);
}

uint64_t LittleEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return value;
}

void Append(std::string& out, uint64_t value) {
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
}

}  // namespace

uint64_t SipHash(const std::array<uint64_t, 2>& key, std::string_view bytes) {
  std::array<uint64_t, 4> v = {key[0] ^ 0x736f6d6570736575, key[1] ^ 0x646f72616e646f6d,
                               key[0] ^ 0x6c7967656e657261, key[1] ^ 0x7465646279746573};
  const auto mix = [&v](uint64_t word) {
    v[3] ^= word;
    Round(v);
    Round(v);
    v[0] ^= word;
  };
  const size_t whole = bytes.size() / 8 * 8;
  for (size_t i = 0; i < whole; i += 8) mix(LittleEndian(bytes.substr(i, 8)));
  mix(LittleEndian(bytes.substr(whole)) | uint64_t{bytes.size() & 0xFF} << 56);
  v[2] ^= 0xFF;
  for (int i = 0; i < 4; ++i) Round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

Transfers::Transfers() {
  const Token token = Token::Random();
  std::memcpy(key_.data(), token.bytes().data(), sizeof key_);
}

uint64_t Transfers::Seal(uint64_t storage, uint64_t number, GrantAccess access) const {
  std::string text;
  Append(text, storage);
  Append(text, number);
  text.push_back(static_cast<char>(access));
  return SipHash(key_, text);
}

std::string Transfers::Make(uint64_t storage, GrantAccess access, uint64_t session, int32_t pid) {
  const Key key{storage, next_number_++};
  holds_.emplace(key, TransferHold{session, pid});
  by_sender_.emplace(session, key);
  std::string token;
  Append(token, key.second);
  Append(token, Seal(storage, key.second, access));
  return token;
}

StatusOr<Transfers::Claim> Transfers::Take(uint64_t storage, std::string_view token) {
  const Status refused =
      NotFoundError("Import: not a handle of this broker, or damaged on its way; export it again");
  if (token.size() != Token::kBytes) return refused;
  const uint64_t number = LittleEndian(token.substr(0, 8));
  const uint64_t seal = LittleEndian(token.substr(8));
  Claim claim;
  if (Seal(storage, number, GrantAccess::kReadWrite) == seal) {
    claim.access = GrantAccess::kReadWrite;
  } else if (Seal(storage, number, GrantAccess::kReadOnly) != seal) {
    return refused;
  }
  const auto it = holds_.find({storage, number});
  if (it != holds_.end()) {
    claim.first = true;
    claim.sender = it->second.sender;
    claim.pid = it->second.pid;
    claim.number = number;
    Erase(it);
  }
  return claim;
}

void Transfers::Restore(uint64_t storage, const Claim& claim) {
  const Key key{storage, claim.number};
  if (holds_.emplace(key, TransferHold{claim.sender, claim.pid}).second)
    by_sender_.emplace(claim.sender, key);
}

void Transfers::Erase(std::map<Key, TransferHold>::iterator it) {
  by_sender_.erase({it->second.sender, it->first});
  holds_.erase(it);
}

std::vector<uint64_t> Transfers::Drop(uint64_t storage, size_t count) {
  std::vector<uint64_t> senders;
  auto it = holds_.lower_bound({storage, kFirst});
  while (it != holds_.end() && it->first.first == storage && senders.size() < count) {
    senders.push_back(it->second.sender);
    Erase(it++);
  }
  return senders;
}

void Transfers::SenderEnded(uint64_t session, TimePoint deadline) {
  const auto it = by_sender_.lower_bound({session, Key{kFirst, kFirst}});
  if (it != by_sender_.end() && it->first == session) due_.emplace(deadline, session);
}

std::vector<uint64_t> Transfers::TakeDue(TimePoint now, size_t count) {
  std::vector<uint64_t> storages;
  while (!due_.empty() && due_.begin()->first <= now && storages.size() < count) {
    const uint64_t session = due_.begin()->second;
    auto it = by_sender_.lower_bound({session, Key{kFirst, kFirst}});
    while (it != by_sender_.end() && it->first == session && storages.size() < count) {
      storages.push_back(it->second.first);
      holds_.erase(it->second);
      it = by_sender_.erase(it);
    }
    if (it == by_sender_.end() || it->first != session) due_.erase(due_.begin());
  }
  return storages;
}

std::vector<int32_t> Transfers::PidsOf(uint64_t storage, size_t count) const {
  std::set<int32_t> pids;
  for (auto it = holds_.lower_bound({storage, kFirst}); it != holds_.end() && it->first.first == storage;
       ++it) {
    if (pids.size() == count) break;
    pids.insert(it->second.pid);
  }
  return {pids.begin(), pids.end()};
}

}  // namespace tensorbroker
