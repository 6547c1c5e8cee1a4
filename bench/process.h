// Other processes of a benchmark: the broker, the floor's server, clients that create, hold and die.
#ifndef TENSORBROKER_BENCH_PROCESS_H_
#define TENSORBROKER_BENCH_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::bench {

// A started program, whose stdin and stdout are pipes to us; killed and reaped when destroyed. Move-only.
class Process {
 public:
  // `program` stands beside this one. It is pinned to `core` (-1: to no core).
  static StatusOr<Process> Start(const std::string& program, std::vector<std::string> arguments, int core);
  Process(Process&& other) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  int pidfd() const { return pidfd_.get(); }
  int stdout_fd() const { return out_.get(); }
  Status Write(const std::string& line);
  // Blocks until a line comes that is `expected`. kUnavailable: the process ended first.
  Status Expect(const std::string& expected);
  void Signal(int signal);

 private:
  Process() = default;

  pid_t pid_ = 0;
  Fd pidfd_, in_, out_;
  std::string read_;
};

// A directory of its own for sockets, and one on /dev/shm for memory; both are removed at the end.
class Directories {
 public:
  Directories();
  ~Directories();
  Directories(const Directories&) = delete;
  Directories& operator=(const Directories&) = delete;
  const std::string& sockets() const { return sockets_; }
  const std::string& shm() const { return shm_; }

 private:
  std::string sockets_;
  std::string shm_;
};

// A tensorbrokerd of this build, its memory in files on /dev/shm, and a client of it.
class Broker {
 public:
  static StatusOr<Broker> Start(int core = 1, std::vector<std::string> arguments = {});

  Client& client() { return *client_; }
  pid_t pid() const { return process_->pid(); }
  const std::string& socket() const { return socket_; }
  // A further client process: this program with `--child` and `arguments` after the socket.
  StatusOr<Process> StartChild(const std::string& role, std::vector<std::string> arguments, int core);

 private:
  std::unique_ptr<Directories> directories_;
  std::unique_ptr<Process> process_;
  std::string socket_;
  std::optional<Client> client_;
};

// What `--child ROLE SOCKET ARGUMENT...` does; gives the exit code.
int RunChild(const std::vector<std::string>& arguments);

// "RssAnon:" of /proc/PID/status, in bytes: the heap and stacks that are in memory.
int64_t AnonymousBytes(pid_t pid);

}  // namespace tensorbroker::bench

#endif  // TENSORBROKER_BENCH_PROCESS_H_
