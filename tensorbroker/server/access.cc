#include "tensorbroker/server/access.h"

#include <fmt/format.h>

namespace tensorbroker {

Status CheckAdmitted(const AdmissionRule& rule, const PeerIdentity& peer) {
  if (MaySee(peer.uid, rule.broker_uid)) return OkStatus();
  if (rule.group && peer.InGroup(*rule.group)) return OkStatus();
  if (rule.group) {
    return PermissionDeniedError(fmt::format(
        "OpenSession: uid {} is not admitted: this broker serves uid {}, root and members of group {}; "
        "join that group and log in again, or start a broker of your own",
        peer.uid, rule.broker_uid, *rule.group));
  }
  return PermissionDeniedError(fmt::format(
      "OpenSession: uid {} is not admitted: this broker serves uid {} and root only; start it with "
      "--socket-group to admit a group, or start a broker of your own",
      peer.uid, rule.broker_uid));
}

}  // namespace tensorbroker
