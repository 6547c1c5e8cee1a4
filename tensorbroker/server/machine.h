// What this machine's kernel and settings allow: for `tensorctl info` and `doctor`.
#ifndef TENSORBROKER_SERVER_MACHINE_H_
#define TENSORBROKER_SERVER_MACHINE_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbroker/proto/records.h"
#include "tensorbroker/storage/segment.h"

namespace tensorbroker {

// Kernel features, each tried once.
std::vector<Feature> ProbeFeatures();

// Limits of this process and of the kernel that will bite; `used` as of now.
std::vector<Limit> MachineLimits();

// Empty, or why this user's Segments would be deleted at its last logout, and the remedy. `root` (before
// "/etc/systemd/logind.conf", ...) is for tests.
std::string RemoveIpcWarning(SourceKind kind, uid_t uid, const std::string& root = "");

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_MACHINE_H_
