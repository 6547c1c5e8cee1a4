// A real tensorbrokerd for a test, in directories of its own.
#ifndef TENSORBROKER_TESTS_SUPPORT_BROKER_PROCESS_H_
#define TENSORBROKER_TESTS_SUPPORT_BROKER_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker::testing {

// Owns the process and its directories (a socket in $TMPDIR, Segments in /dev/shm); ends and removes them.
// Its destructor is a check: the broker ended by SIGTERM with exit code 0 (where it still ran), no Segment
// was left in the shm directory, and this process has no descriptor of one. Failures are the test's failures.
// Not thread-safe.
class BrokerProcess {
 public:
  // Starts a broker with `arguments` after the fixture's own (--socket, --shm-dir, --instance, --log-level);
  // waits until it serves. Codes as StartDaemon; the text has its last words.
  static StatusOr<std::unique_ptr<BrokerProcess>> Start(std::vector<std::string> arguments = {});
  ~BrokerProcess();
  BrokerProcess(const BrokerProcess&) = delete;
  BrokerProcess& operator=(const BrokerProcess&) = delete;

  const std::string& socket() const { return socket_; }
  const std::string& shm_dir() const { return shm_dir_; }
  pid_t pid() const { return pid_; }  // 0: none runs

  // SIGKILL, and waits for its end. What it leaves behind is checked after the next broker's end, or by no
  // one.
  void Kill();
  // SIGTERM, and waits for its end; gives the exit code, or 128 + signal.
  int Stop();
  // SIGSTOP and SIGCONT; the first returns once the process has stopped.
  void Pause();
  void Resume();
  // Starts the next broker on the same socket, directory and instance, after Kill or Stop.
  Status Restart();

  // All that the brokers of this object wrote to stderr.
  std::string log() const;
  // Segments' files: what is in the shm directory, locks and directories left out.
  std::vector<std::string> SegmentFiles() const;
  // Their bytes in all, as allocated.
  int64_t SegmentBytes() const;

 private:
  BrokerProcess() = default;
  Status Launch();

  std::string root_;  // of the socket and the log
  std::string shm_dir_;
  std::string socket_;
  std::string log_path_;
  std::vector<std::string> arguments_;
  pid_t pid_ = 0;
  bool killed_ = false;
};

// The tensorbrokerd that this build made.
std::string DaemonPath();

// Descriptors of this process whose target begins with `prefix` ("/dev/shm/", "/memfd:", "socket:").
int CountFds(const std::string& prefix);
// Mappings of this process whose line in /proc/self/maps holds `text`.
int CountMappings(const std::string& text);

// Calls `condition` every few milliseconds until it is true; false where `timeout` passed first. For
// conditions that another process brings about and nothing announces.
template <typename Condition>
bool Eventually(Duration timeout, Condition condition);

namespace internal {
void Pause();
}

template <typename Condition>
bool Eventually(Duration timeout, Condition condition) {
  const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), timeout);
  while (true) {
    if (condition()) return true;
    if (Clock::Real().Now() >= deadline) return false;
    internal::Pause();
  }
}

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_SUPPORT_BROKER_PROCESS_H_
