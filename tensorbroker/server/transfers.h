// Transfer holds: the broker's own references to Storages whose handles are under way between processes.
#ifndef TENSORBROKER_SERVER_TRANSFERS_H_
#define TENSORBROKER_SERVER_TRANSFERS_H_

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/records.h"

namespace tensorbroker {

// A handle's secret is its number and a keyed hash (SipHash-2-4) of number, Storage and access. So a token that was used is
// still known as one, though nothing is kept of it: later imports of a consumed handle work while the Storage lives, a
// guessed one never. Thread-compatible: the Broker's lock guards it.
class Transfers {
 public:
  Transfers();

  // A new transfer hold on `storage`, made by `session`. Gives the token (Token::kBytes).
  std::string Make(uint64_t storage, GrantAccess access, uint64_t session, int32_t pid);

  struct Claim {
    GrantAccess access = GrantAccess::kReadOnly;
    bool first = false;   // the transfer hold was still there, and is the importer's now
    uint64_t sender = 0;  // where `first`: the session that made it
    int32_t pid = 0;      // where `first`: the sender's
    uint64_t number = 0;
  };
  // kNotFound  not a token that this broker made for `storage`
  StatusOr<Claim> Take(uint64_t storage, std::string_view token);

  // Undoes a Take that was `first`: the token has its transfer hold again.
  void Restore(uint64_t storage, const Claim& claim);

  // Drops the oldest transfer holds on `storage`: at most `count`. Gives the sessions that made them.
  std::vector<uint64_t> Drop(uint64_t storage, size_t count);
  // The sender has ended: its transfer holds that nobody takes until `deadline` are due then.
  void SenderEnded(uint64_t session, TimePoint deadline);
  // Drops holds that are due, at most `count`; gives their Storages, once a hold.
  std::vector<uint64_t> TakeDue(TimePoint now, size_t count);
  TimePoint next_due() const { return due_.empty() ? TimePoint::max() : due_.begin()->first; }

  // The senders' pids, each once, at most `count`.
  std::vector<int32_t> PidsOf(uint64_t storage, size_t count) const;
  size_t size() const { return holds_.size(); }

 private:
  struct TransferHold {
    uint64_t sender = 0;
    int32_t pid = 0;
  };
  using Key = std::pair<uint64_t, uint64_t>;  // {Storage, number}

  uint64_t Seal(uint64_t storage, uint64_t number, GrantAccess access) const;
  void Erase(std::map<Key, TransferHold>::iterator it);

  std::array<uint64_t, 2> key_;
  uint64_t next_number_ = 1;
  std::map<Key, TransferHold> holds_;
  std::set<std::pair<uint64_t, Key>> by_sender_;
  std::set<std::pair<TimePoint, uint64_t>> due_;  // senders that have ended
};

// SipHash-2-4 of `bytes`, as its authors define it.
uint64_t SipHash(const std::array<uint64_t, 2>& key, std::string_view bytes);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_TRANSFERS_H_
