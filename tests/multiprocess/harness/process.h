// Any program as a child of a test: under another uid, umask, cgroup or namespace where a case asks for it.
//
// Processes are known by pidfd. Their stderr is kept, so that a test can say that nothing stood on it.
#ifndef TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_PROCESS_H_
#define TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tests/support/scale.h"

namespace tensorbroker::testing {

using namespace std::chrono_literals;

// Past this, whatever a test waits for counts as hung.
inline constexpr Duration kHang = std::chrono::seconds(20) * (kSanitized ? 2 : 1);

struct LaunchOptions {
  std::optional<uid_t> uid;      // and the gid of that number, and no other group (root only)
  std::vector<gid_t> groups;     // with `uid`
  std::optional<mode_t> umask;   // the test's own otherwise
  int descriptors = 0;           // > 0: RLIMIT_NOFILE, soft and hard
  int64_t dev_shm_bytes = 0;     // > 0: a mount namespace with a /dev/shm of that size (root only)
  bool pid_namespace = false;    // as pid 7 of a pid namespace of its own (root only)
  std::string cgroup;            // a directory of a cgroup hierarchy to join first
  std::vector<std::string> env;  // "NAME=value", over the test's own
  int inherit = -1;              // a descriptor that it gets under the same number
};

// The end of a process.
struct Exit {
  bool in_time = false;  // false: it still runs
  int code = -1;         // its exit code; -1 after a signal
  int signal = 0;
};

// A child of this process. Move-only. Its destructor kills and reaps it, where nobody waited.
class Process {
 public:
  Process() = default;
  Process(Process&&) = default;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  // Starts `program` (an absolute path). Fails the test and gives an empty one where it cannot.
  static Process Start(const std::string& program, std::vector<std::string> args,
                       const LaunchOptions& options = {});
  // This test binary as TB_CHILD(`name`), with `channel` as its channel.
  static Process StartChild(const std::string& name, std::vector<std::string> args, const Fd& channel,
                            LaunchOptions options = {});
  // tensorbrokerd, until it serves (or has ended: see Ended()). It is to be stopped with Stop.
  static Process StartDaemon(std::vector<std::string> args, LaunchOptions options = {});

  pid_t pid() const { return pid_; }
  bool valid() const { return pidfd_.valid(); }
  // With `pid_namespace` this reaches the launcher; the process itself is a grandchild.
  void Signal(int signal) const;
  bool Ended() const;
  // Waits for the end and reaps.
  Exit Wait(Duration limit = kHang);
  // SIGKILL, and waits.
  void Kill();
  // SIGTERM, and waits; the test fails where the exit code is not 0.
  void Stop();
  // All that it wrote on stderr so far.
  std::string Stderr() const;

 private:
  pid_t pid_ = -1;
  Fd pidfd_;
  Fd stderr_;
};

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_PROCESS_H_
