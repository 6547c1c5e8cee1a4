#include "tensorbroker/client/link.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tensorbroker::internal {

StatusOr<std::shared_ptr<Link>> Link::Open(const SocketCandidate& candidate, const std::string& label,
                                           TimePoint deadline) {
  const Duration left = deadline - Clock::Real().Now();
  TB_ASSIGN_OR_RETURN(
      Fd lease, ConnectToBroker(candidate, std::clamp<Duration>(left, Duration{0}, std::chrono::seconds(2))));
  std::shared_ptr<Link> link(new Link);
  link->path_ = candidate.path;
  link->lease_ =
      std::make_unique<LeaseClient>(std::move(lease), fmt::format("the broker at {}", candidate.path));
  TB_ASSIGN_OR_RETURN(link->calls_, Connection::Make(candidate.path));
  TB_ASSIGN_OR_RETURN(link->session_, link->calls_->OpenSession(label, deadline));
  link->lease_->set_broker(
      fmt::format("the broker (pid {}) at {}", link->session_.broker_pid, candidate.path));
  TB_RETURN_IF_ERROR(link->lease_->Bind(link->session_.lease_token, deadline));
  return link;
}

Status Link::Check() const {
  if (!lease_->broken()) return OkStatus();
  return UnavailableError(
      fmt::format("the broker (pid {}) at {} is gone: it ended, or ended this session; what is mapped stays "
                  "readable; connect anew",
                  session_.broker_pid, path_));
}

}  // namespace tensorbroker::internal
