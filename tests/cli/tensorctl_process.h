// The tensorctl that this build made, run as a user runs it.
#ifndef TENSORBROKER_TESTS_CLI_TENSORCTL_PROCESS_H_
#define TENSORBROKER_TESTS_CLI_TENSORCTL_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbroker/base/fd.h"

namespace tensorbroker::cli {

struct Result {
  int code = -1;  // the exit code, or 128 + signal
  std::string out;
  std::string err;
};

// Where its stdout goes.
enum class Stdout { kPipe, kTerminal70, kFull };

// Owns the process; kills it where it still runs. Each wait has a deadline of 60 s. Not thread-safe.
class TensorctlProcess {
 public:
  // `environment` ("NO_COLOR=1") is added to this process's own. Another program than tensorctl by `program`.
  explicit TensorctlProcess(std::vector<std::string> arguments, std::vector<std::string> environment = {},
                            Stdout out = Stdout::kPipe, const std::string& program = {});
  ~TensorctlProcess();
  TensorctlProcess(const TensorctlProcess&) = delete;
  TensorctlProcess& operator=(const TensorctlProcess&) = delete;

  pid_t pid() const { return pid_; }
  // The next line of stdout or of stderr, without its newline; empty where it ended.
  std::string ReadLine() { return ReadLine(out_, out_text_); }
  std::string ReadErrorLine() { return ReadLine(err_, err_text_); }
  void Signal(int signal);
  // Reads the rest, waits for its end.
  Result Wait();

 private:
  static std::string ReadLine(Fd& fd, std::string& buffer);

  pid_t pid_ = 0;
  Fd out_;
  Fd err_;
  std::string out_text_;  // read, and not yet given to anyone
  std::string err_text_;
};

// Runs it to its end.
Result Tensorctl(std::vector<std::string> arguments, std::vector<std::string> environment = {},
                 Stdout out = Stdout::kPipe);

// The path of tensorctl.
std::string TensorctlPath();

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_TESTS_CLI_TENSORCTL_PROCESS_H_
