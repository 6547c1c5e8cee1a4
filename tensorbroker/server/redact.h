// What a source's message may say to a client: all but the paths of this broker's own files.
#ifndef TENSORBROKER_SERVER_REDACT_H_
#define TENSORBROKER_SERVER_REDACT_H_

#include <string>
#include <string_view>

#include "tensorbroker/base/status.h"

namespace tensorbroker {

// `message` with "the Segments' filesystem" for each absolute path. Paths that each machine has ("/dev/shm", "/proc/sys/...")
// stay: they are the remedy.
std::string WithoutPaths(std::string_view message);
Status WithoutPaths(const Status& status);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_REDACT_H_
