// Other programs: becoming one, running one, and waiting for a process's end.
#ifndef TENSORBROKER_CLI_PROCESS_H_
#define TENSORBROKER_CLI_PROCESS_H_

#include <signal.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::cli {

// Replaces this process by `argv` (argv[0] is a path). Comes back only with the error.
// kNotFound, kPermissionDenied, kUnavailable  what execve(2) says
Status Exec(std::vector<std::string> argv);

struct Stopped {
  int32_t pid = 0;  // as this process sees it, where it can
  bool ended =
      false;  // false: it still ran after the timeout, or the kernel does not say which process it is
};

// Asks the broker of `client` to end, and waits up to `timeout` for its process to be gone. Codes as Inspector::Stop.
StatusOr<Stopped> StopBroker(const Client& client, Duration timeout);

// A command started with what this process was given: its streams, directory and environment.
class Job {
 public:
  // From now on signals that would end this process wait for Run. Call it before any thread is started.
  Job();
  // Starts `argv` ($PATH is searched), hands on the signals that this process gets, and gives the exit code: the
  // command's own, 128 + signal where one ended it.
  // kNotFound, kPermissionDenied  the command cannot be started
  StatusOr<int> Run(std::vector<std::string> argv);

 private:
  sigset_t handed_on_;
  sigset_t before_;
};

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_PROCESS_H_
