// What operators ask a broker: `tensorctl` is a face of this class.
#ifndef TENSORBROKER_CLIENT_INSPECTOR_H_
#define TENSORBROKER_CLIENT_INSPECTOR_H_

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "tensorbroker/base/status.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/client/options.h"
#include "tensorbroker/proto/records.h"

namespace tensorbroker {

// A value; shares its Client's Session. Thread-safe. Looking costs no mapping and no hold.
class Inspector {
 public:
  // Calls `visit` for each Storage that this uid may see, by id, as pages arrive; each that lives throughout
  // comes once.
  Status List(const ListOptions& options, const std::function<void(StorageRecord)>& visit) const;
  StatusOr<StorageRecord> Stat(std::string_view name) const;
  StatusOr<StorageRecord> Stat(StorageId id) const;
  StatusOr<std::vector<SessionRecord>> Sessions(bool held) const;
  StatusOr<BrokerInfo> Info() const;
  // Calls `visit` for each event until it returns false, the broker ends (kUnavailable) or `timeout` is over
  // (OK). `on_ready` is called once the watch is on: no event after that is missed.
  Status Watch(std::string_view prefix, Duration timeout, const std::function<void()>& on_ready,
               const std::function<bool(const Event&)>& visit) const;
  // Ends the broker; gives its pid. kPermissionDenied: not its uid.
  StatusOr<int32_t> Stop() const;

 private:
  friend class Client;
  explicit Inspector(std::shared_ptr<internal::Session> session) : session_(std::move(session)) {}
  std::shared_ptr<internal::Session> session_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_CLIENT_INSPECTOR_H_
