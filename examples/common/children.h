// Processes that an example starts: this same program again, or a tool that stands beside it.
//
// posix_spawn, not fork: a program with threads (each client has some) may only exec after a fork.
#ifndef TENSORBROKER_EXAMPLES_COMMON_CHILDREN_H_
#define TENSORBROKER_EXAMPLES_COMMON_CHILDREN_H_

#include <sys/types.h>

#include <atomic>
#include <string>
#include <vector>

#include "tensorbroker/base/status.h"

namespace tensorbroker::examples {

// A group of this program's own processes. Ends those that still run when destroyed. Spawn first, then Wait; Kill may be
// called while another thread waits.
class Children {
 public:
  Children() = default;
  ~Children();
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;

  // Starts this program with `arguments` and `--parent PID` (for EndWithParent). `what` is how messages call it. The
  // calling thread must live as long as the child.
  // kUnavailable  posix_spawn failed: the reason
  Status Spawn(std::string what, std::vector<std::string> arguments);
  // Blocks until all have ended.
  // kAborted    one did not end with exit code 0: which, and how. The others have been ended.
  // kCancelled  Kill was called
  Status Wait();
  void Kill();

  // "4711 4712 4713".
  std::string pids() const;

 private:
  struct Child {
    std::string what;
    pid_t pid = 0;
    int pidfd = -1;
    bool ended = false;
  };
  Status Reap(Child& child);

  std::vector<Child> children_;
  std::atomic<bool> killed_{false};
};

// In a child: it ends when `parent` does, however that happens.
void EndWithParent(pid_t parent);

// Runs the program `name` that stands beside this one, with the same stdout, and waits for its end.
// kNotFound  it is not there
// kAborted   it did not end with exit code 0
Status RunBeside(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace tensorbroker::examples

#endif  // TENSORBROKER_EXAMPLES_COMMON_CHILDREN_H_
