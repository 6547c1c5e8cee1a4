#include "bench/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iostream>

#include "bench/harness.h"
#include "tensorbroker/ipc/process.h"

namespace tensorbroker::bench {
namespace {

std::string Beside(const std::string& name) {
  return std::filesystem::read_symlink("/proc/self/exe").replace_filename(name).string();
}

// Holds the calling thread on a core while it lives, for what it starts.
class PinnedTo {
 public:
  explicit PinnedTo(int core) {
    sched_getaffinity(0, sizeof(before_), &before_);
    if (core >= 0) {
      Pin(core);
    } else {
      cpu_set_t all;
      CPU_ZERO(&all);
      for (int c = 0; c < CPU_SETSIZE; ++c) CPU_SET(c, &all);
      sched_setaffinity(0, sizeof(all), &all);
    }
  }
  ~PinnedTo() { sched_setaffinity(0, sizeof(before_), &before_); }

 private:
  cpu_set_t before_;
};

}  // namespace

StatusOr<Process> Process::Start(const std::string& program, std::vector<std::string> arguments, int core) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return ErrnoStatus(errno, "pipe2");
  Process process;
  Fd child_in(in[0]), child_out(out[1]);
  process.in_.reset(in[1]);
  process.out_.reset(out[0]);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
  posix_spawn_file_actions_adddup2(&actions, child_out.get(), 1);
  const std::string path = Beside(program);
  arguments.insert(arguments.begin(), path);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int error = 0;
  {
    const PinnedTo pinned(core);
    error = posix_spawn(&process.pid_, path.c_str(), &actions, nullptr, argv.data(), environ);
  }
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    process.pid_ = 0;
    return ErrnoStatus(error, "posix_spawn of " + path);
  }
  TB_ASSIGN_OR_RETURN(process.pidfd_, PidfdOpen(process.pid_));
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      pidfd_(std::move(other.pidfd_)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      read_(std::move(other.read_)) {}

Process::~Process() {
  if (pid_ == 0) return;
  kill(pid_, SIGTERM);  // a broker removes its files
  if (!PidfdWait(pidfd_.get(), std::chrono::seconds(20))) kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

Status Process::Write(const std::string& line) {
  if (write(in_.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return ErrnoStatus(errno, "write");
  return OkStatus();
}

Status Process::Expect(const std::string& expected) {
  for (;;) {
    if (const size_t end = read_.find('\n'); end != std::string::npos) {
      const std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      if (line == expected) return OkStatus();
      continue;
    }
    char buffer[256];
    const ssize_t got = read(out_.get(), buffer, sizeof(buffer));
    if (got <= 0)
      return UnavailableError("a process of the benchmark ended before it said \"" + expected + "\"");
    read_.append(buffer, static_cast<size_t>(got));
  }
}

void Process::Signal(int signal) { kill(pid_, signal); }

Directories::Directories() {
  char sockets[] = "/tmp/tensorbroker-bench.XXXXXX", shm[] = "/dev/shm/tensorbroker-bench.XXXXXX";
  if (mkdtemp(sockets) != nullptr) sockets_ = sockets;
  if (mkdtemp(shm) != nullptr) shm_ = shm;
}

Directories::~Directories() {
  std::error_code error;
  if (!sockets_.empty()) std::filesystem::remove_all(sockets_, error);
  if (!shm_.empty()) std::filesystem::remove_all(shm_, error);
}

StatusOr<Broker> Broker::Start(int core, std::vector<std::string> arguments) {
  Broker broker;
  broker.directories_ = std::make_unique<Directories>();
  broker.socket_ = broker.directories_->sockets() + "/broker.sock";
  arguments.insert(arguments.begin(), {"--socket", broker.socket_, "--memory", "shm", "--shm-dir",
                                       broker.directories_->shm(), "--log-level", "warning"});
  TB_ASSIGN_OR_RETURN(Process process, Process::Start("tensorbrokerd", std::move(arguments), core));
  broker.process_ = std::make_unique<Process>(std::move(process));
  for (int attempt = 0;; ++attempt) {
    StatusOr<Client> client = Client::Connect({.socket = broker.socket_, .label = "bench"});
    if (client.ok()) {
      broker.client_ = *std::move(client);
      return broker;
    }
    if (attempt == 1000 || PidfdHasEnded(broker.process_->pidfd())) return client.status();
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
}

StatusOr<Process> Broker::StartChild(const std::string& role, std::vector<std::string> arguments, int core) {
  arguments.insert(arguments.begin(), {"--child", role, socket_});
  return Process::Start("tensorbroker_bench", std::move(arguments), core);
}

namespace {

// "hold SOCKET COUNT BYTES": creates COUNT Storages, writes a byte a page, and waits for its end.
Status Hold(Client& client, int64_t count, int64_t bytes) {
  std::vector<Storage> held;
  for (int64_t i = 0; i < count; ++i) {
    TB_ASSIGN_OR_RETURN(Storage storage, client.CreateStorage(bytes));
    for (int64_t at = 0; at < bytes; at += 4096) storage.mutable_bytes()[at] = std::byte{1};
    held.push_back(std::move(storage));
  }
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
  }
  return OkStatus();
}

// "create SOCKET BYTES": for each line on stdin creates a Storage, says "created", drops it, says "dropped".
Status CreateOften(Client& client, int64_t bytes) {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    TB_ASSIGN_OR_RETURN(Storage storage, client.CreateStorage(bytes, {.map = false}));
    std::cout << "created" << std::endl;
    storage = {};
    TB_RETURN_IF_ERROR(client.Flush());
    std::cout << "dropped" << std::endl;
  }
  return OkStatus();
}

}  // namespace

int RunChild(const std::vector<std::string>& arguments) {
  if (arguments.size() < 3) return 2;
  StatusOr<Client> client = Client::Connect({.socket = arguments[1], .label = "bench " + arguments[0]});
  Status status = client.status();
  if (status.ok()) {
    const int64_t first = std::stoll(arguments[2]);
    status = arguments[0] == "hold" ? Hold(*client, first, std::stoll(arguments.at(3)))
                                    : CreateOften(*client, first);
  }
  if (!status.ok()) std::cerr << "bench child: " << status.ToString() << std::endl;
  return status.ok() ? 0 : 1;
}

int64_t AnonymousBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) * 1024;
  }
  return 0;
}

}  // namespace tensorbroker::bench
