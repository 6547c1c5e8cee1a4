// What a session's granting calls were answered, so that lost replies do not leak.
#ifndef TENSORBROKER_SERVER_CALL_LOG_H_
#define TENSORBROKER_SERVER_CALL_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tensorbroker/base/status.h"
#include "tensorbroker/proto/records.h"
#include "tensorbroker/server/transfers.h"

namespace tensorbroker {

// Enough of a reply to give it again.
struct CallAnswer {
  uint64_t storage = 0;  // serial
  GrantAccess access = GrantAccess::kReadOnly;
  std::shared_ptr<const Header> header;  // OpenReply's and AttachReply's; null where there was none
  uint64_t version = 0;                  // OpenReply's
  Transfers::Claim claim;                // Import's: given back with an answer that nobody got
  std::string transfer_token;            // Export's: void with an answer that nobody got; there is no grant
};

// One session's log, of its last `capacity` grants and its last `capacity` abandoned calls that had not arrived. Call id 0
// is no id: nothing is remembered for it. Thread-compatible.
class CallLog {
 public:
  explicit CallLog(size_t capacity) : capacity_(capacity) {}

  // A granting call arrives. Nothing: go on, and end it with Granted or Failed. An answer: it was granted before, this is a
  // retry.
  // kAborted  it was abandoned before it arrived, or a call of this id is under way still
  StatusOr<std::optional<CallAnswer>> Begin(uint64_t call_id);

  // True where the call was abandoned while it was under way: it must not be granted, and is over.
  bool AbandonedMeanwhile(uint64_t call_id);
  void Granted(uint64_t call_id, CallAnswer answer);
  void Failed(uint64_t call_id);

  // The caller does not know what became of the call. Gives the answer whose grant is to be taken back, if it was granted.
  std::optional<CallAnswer> Abandon(uint64_t call_id);

 private:
  const size_t capacity_;
  std::unordered_map<uint64_t, CallAnswer> granted_;
  std::deque<uint64_t> granted_order_;
  std::unordered_set<uint64_t> under_way_;
  std::unordered_set<uint64_t> abandoned_;
  std::deque<uint64_t> abandoned_order_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_CALL_LOG_H_
