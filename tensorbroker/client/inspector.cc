#include "tensorbroker/client/inspector.h"

#include <utility>

#include "tensorbroker/client/session.h"

namespace tensorbroker {

Status Inspector::List(const ListOptions& options, const std::function<void(StorageRecord)>& visit) const {
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(session_->DefaultDeadline()));
  return link->calls().List(options, session_->default_deadline(), visit);
}

StatusOr<StorageRecord> Inspector::Stat(std::string_view name) const {
  const TimePoint deadline = session_->DefaultDeadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Stat(name, deadline);
}

StatusOr<StorageRecord> Inspector::Stat(StorageId id) const {
  const TimePoint deadline = session_->DefaultDeadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Stat(id, deadline);
}

StatusOr<std::vector<SessionRecord>> Inspector::Sessions(bool held) const {
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(session_->DefaultDeadline()));
  return link->calls().ListSessions(held, session_->default_deadline());
}

StatusOr<BrokerInfo> Inspector::Info() const {
  const TimePoint deadline = session_->DefaultDeadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Info(deadline);
}

Status Inspector::Watch(std::string_view prefix, Duration timeout, const std::function<void()>& on_ready,
                        const std::function<bool(const Event&)>& visit) const {
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(session_->DefaultDeadline()));
  return link->calls().Watch(prefix, session_->default_deadline(),
                             DeadlineAfter(Clock::Real().Now(), timeout), nullptr, on_ready, visit);
}

StatusOr<int32_t> Inspector::Stop() const {
  const TimePoint deadline = session_->DefaultDeadline();
  TB_ASSIGN_OR_RETURN(const auto link, session_->GetLink(deadline));
  return link->calls().Stop(deadline);
}

}  // namespace tensorbroker
