// Where a broker may be, and whether the process that answers there is to be trusted.
#ifndef TENSORBROKER_CLIENT_LOCATE_H_
#define TENSORBROKER_CLIENT_LOCATE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::internal {

struct SocketCandidate {
  std::string path;
  // Named by the caller or by $TENSORBROKER_SOCKET: taken as it is.
  bool named = false;
};

// The sockets to try, in order: `socket` alone where it is not empty, else $TENSORBROKER_SOCKET alone where it is set, else
// the places that a broker takes by default. Absolute where that fits a socket's address.
std::vector<SocketCandidate> CandidateSockets(const std::string& socket);

// A connection to `candidate`, whose listener is this uid's, root's, or (in /run/tensorbroker) that directory's owner's;
// anyone's where it was named.
// kNotFound, kUnavailable, kPermissionDenied, kInvalidArgument  as ConnectUnix
// kPermissionDenied                                             another uid's broker
StatusOr<Fd> ConnectToBroker(const SocketCandidate& candidate, Duration timeout);

// Why nobody answered: each socket with its reason, and how to start a broker. The code is the gravest of `causes`, which
// are one a candidate.
Status NoBroker(const std::vector<SocketCandidate>& candidates, const std::vector<Status>& causes);

// The rule by itself. `run_owner`: the owner of the root-made directory that the socket lies in, or -1.
bool MayServe(uid_t listener, uid_t self, uid_t run_owner);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_LOCATE_H_
