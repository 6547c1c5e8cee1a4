// What is wrong, or soon will be, with a broker and its machine: rules from facts to findings. Pure: no file is read here
// and no call is made; host_facts.h gathers what the machine says.
#ifndef TENSORBROKER_CLI_DOCTOR_H_
#define TENSORBROKER_CLI_DOCTOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {

// kError: something fails now, or bytes are lost. kWarning: it will, in a foreseeable case. kAdvice: it costs memory or time.
enum class Severity : uint8_t { kAdvice, kWarning, kError };
std::string_view Name(Severity severity);  // "advice", "warning", "error"

struct Finding {
  std::string id;  // stable, for scripts: "small-shm"
  Severity severity = Severity::kAdvice;
  std::string evidence;
  std::string remedy;

  friend bool operator==(const Finding&, const Finding&) = default;
};

// Segments' files whose broker has died.
struct Leftover {
  std::string directory;
  int64_t files = 0;
  int64_t bytes = 0;
};

// What the machine says. A value that could not be read is empty, and its rules are silent.
struct HostFacts {
  std::optional<int64_t> shm_size_bytes;  // of /dev/shm
  std::optional<int64_t> swap_total_bytes;
  std::optional<int64_t> swap_used_bytes;
  std::optional<bool> remove_ipc;          // what logind does at a user's last logout; none: no logind runs
  bool uid_is_system = false;              // of the broker: logind spares those
  bool uid_lingers = false;                // of the broker
  std::optional<int64_t> broker_fd_limit;  // of the broker's process
  std::optional<int64_t> broker_fds;
  std::optional<int64_t> client_fd_limit;  // of a process started from this shell
  std::optional<int64_t> max_map_count;    // vm.max_map_count
  std::string shmem_huge_pages;            // the chosen word of shmem_enabled: "never"
  std::string shm_mount_huge_pages;        // the mount's huge= option; empty: none
  std::vector<Leftover> leftovers;         // in /dev/shm, of the broker's uid
};

// All that the rules look at.
struct Facts {
  // None: no broker answered, for the reason in `broker_error`.
  std::optional<BrokerInfo> broker;
  std::string broker_error;
  // A process listens on the broker's socket and answered nothing; 0: none, or one whose pid cannot be seen from here.
  bool broker_silent = false;
  int32_t silent_pid = 0;
  std::vector<StorageRecord> storages;  // with holders
  std::vector<SessionRecord> sessions;  // with what each holds
  HostFacts host;
  int64_t now_unix_ns = 0;
};

// The worst first, otherwise in the order of the rules.
std::vector<Finding> Diagnose(const Facts& facts);

// What Diagnose looks at, for people: "the size of /dev/shm", ...
std::vector<std::string> CheckedByDoctor(bool with_broker);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_DOCTOR_H_
