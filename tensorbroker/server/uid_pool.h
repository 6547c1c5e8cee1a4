// What uids share: sessions, waits, watchers. Nobody can take all of a pool and lock the broker's own uid out.
#ifndef TENSORBROKER_SERVER_UID_POOL_H_
#define TENSORBROKER_SERVER_UID_POOL_H_

#include <fmt/format.h>
#include <sys/types.h>

#include <cstddef>
#include <string_view>
#include <unordered_map>

#include "tensorbroker/base/status.h"
#include "tensorbroker/server/access.h"

namespace tensorbroker {

// How much of `pool` (> 0) one uid may take: all of it where it is the broker's own or root, else half.
inline size_t ShareOf(uid_t uid, uid_t broker_uid, size_t pool) {
  return MaySee(uid, broker_uid) ? pool : (pool + 1) / 2;
}

// Counts what there is of one kind, by uid. Thread-compatible: the Broker's lock guards it.
class UidPool {
 public:
  UidPool(size_t size, uid_t broker_uid) : size_(size), broker_uid_(broker_uid) {}

  // Whether there is room for one more of `uid`'s; `call` and `things` ("sessions") are for the text.
  // kResourceExhausted  the pool is full, or the uid has its share of it
  Status CheckRoom(uid_t uid, std::string_view call, std::string_view things) const {
    if (used_ >= size_) {
      return ResourceExhaustedError(fmt::format(
          "{}: the broker has {} {} already, which is its limit; end some (`tensorctl who` lists sessions)",
          call, size_, things));
    }
    const size_t share = ShareOf(uid, broker_uid_, size_);
    if (CountOf(uid) < share) return OkStatus();
    return ResourceExhaustedError(
        fmt::format("{}: uid {} has {} {} already, which is the limit of a uid that is not the broker's "
                    "(half of its {}); end some",
                    call, uid, share, things, size_));
  }
  void Add(uid_t uid) {
    ++used_;
    ++counts_[uid];
  }
  void Remove(uid_t uid) {
    --used_;
    if (--counts_[uid] == 0) counts_.erase(uid);
  }
  size_t CountOf(uid_t uid) const {
    const auto it = counts_.find(uid);
    return it == counts_.end() ? 0 : it->second;
  }

 private:
  const size_t size_;
  const uid_t broker_uid_;
  size_t used_ = 0;
  std::unordered_map<uid_t, size_t> counts_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_UID_POOL_H_
