// The broker as a process: wires everything, serves until it is told to end, and leaves nothing behind.
#ifndef TENSORBROKER_SERVER_DAEMON_H_
#define TENSORBROKER_SERVER_DAEMON_H_

#include "tensorbroker/base/status.h"
#include "tensorbroker/server/daemon_options.h"

namespace tensorbroker {

// Serves until SIGTERM, SIGINT, a Stop, or the parent's end. Called from main, before any thread is there.
// kAlreadyExists  another broker runs: "already running, pid N"
// and what the socket's place, the memory's source and the capacity refuse.
Status RunDaemon(const DaemonOptions& options);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_DAEMON_H_
