// Who may see what: a Storage and a name belong to a uid; to others they do not exist.
#ifndef TENSORBROKER_SERVER_ACCESS_H_
#define TENSORBROKER_SERVER_ACCESS_H_

#include <sys/types.h>

#include <optional>

#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/peer.h"

namespace tensorbroker {

// True where `caller` is `owner` or root.
inline bool MaySee(uid_t caller, uid_t owner) { return caller == owner || caller == 0; }

// Whose sessions a broker takes.
struct AdmissionRule {
  uid_t broker_uid = 0;
  std::optional<gid_t> group;  // --socket-group
};

// kPermissionDenied  `peer` is neither the broker's uid, root, nor of the group; the text names its uid and what would
//                    admit it
Status CheckAdmitted(const AdmissionRule& rule, const PeerIdentity& peer);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_ACCESS_H_
