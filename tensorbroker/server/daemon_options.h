// tensorbrokerd's command line and configuration file.
#ifndef TENSORBROKER_SERVER_DAEMON_OPTIONS_H_
#define TENSORBROKER_SERVER_DAEMON_OPTIONS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/log.h"
#include "tensorbroker/storage/segment.h"

namespace tensorbroker {

struct DaemonOptions {
  int64_t capacity_bytes = 0;  // 0: what the machine's limits allow
  SourceKind memory = SourceKind::kShm;
  std::string shm_dir;  // empty: /dev/shm, or the first hugetlbfs
  std::string socket;   // empty: the first default that can be made
  std::optional<mode_t> socket_mode;
  std::optional<gid_t> socket_group;
  std::string instance;  // empty: made from the socket's path
  Duration transfer_ttl = std::chrono::minutes(10);
  LogLevel log_level = LogLevel::kInfo;
  int parent_pidfd = -1;  // embedded: end when it fires
  int ready_fd = -1;      // written to when the broker serves
};

// Reads the arguments. Nothing: `*exit_code` says how to end (0 after --help and --version, 2 for a mistake), and what was
// to be printed has been.
std::optional<DaemonOptions> ParseDaemonOptions(int argc, char** argv, int* exit_code);

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_DAEMON_OPTIONS_H_
