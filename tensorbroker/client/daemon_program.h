// The program tensorbrokerd as a file, and starting it for somebody who waits for it.
#ifndef TENSORBROKER_CLIENT_DAEMON_PROGRAM_H_
#define TENSORBROKER_CLIENT_DAEMON_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::internal {

// The tensorbrokerd to start: `wanted`, else $TENSORBROKER_DAEMON, else beside this program, beside this library (or in the
// bin directory next to its own), in $PATH.
// kNotFound  what was named is no executable file, or none is anywhere
StatusOr<std::string> FindDaemon(const std::string& wanted = {});

struct StartedDaemon {
  pid_t pid = 0;  // a child of this process, to be reaped
  Fd pidfd;
};

// Runs `argv` (argv[0] is a path) in a process group of its own, and waits until it serves. It ends with this process,
// however that ends. Its stderr goes to `log`, a file that can be read as well, from its offset on; what failed has left no
// process.
// kNotFound, kPermissionDenied  it cannot be started
// kUnavailable                  it ended at its start: with its last words
// kDeadlineExceeded             it was not ready in time: with its last words
// kResourceExhausted            no descriptor or process left
StatusOr<StartedDaemon> StartDaemon(std::vector<std::string> argv, const Fd& log, Duration timeout);

}  // namespace tensorbroker::internal

#endif  // TENSORBROKER_CLIENT_DAEMON_PROGRAM_H_
