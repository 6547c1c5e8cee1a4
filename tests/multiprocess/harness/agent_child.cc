// The agent's own side: reads commands on descriptor 3 and carries them out with the client library.
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <complex>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "tensorbroker/base/mutex.h"
#include "tensorbroker/client/client.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/ipc/socket.h"
#include "tests/multiprocess/harness/agent.h"
#include "tests/multiprocess/harness/words.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {
namespace {

using Words = std::vector<std::string>;

// One element as text.
std::string Element(const void* at, DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return fmt::format("{}", *static_cast<const float*>(at));
    case DType::kInt64:
      return fmt::format("{}", *static_cast<const int64_t*>(at));
    case DType::kUInt8:
      return fmt::format("{}", *static_cast<const uint8_t*>(at));
    case DType::kComplex128: {
      double parts[2];
      memcpy(parts, at, sizeof parts);
      return fmt::format("{}+{}j", parts[0], parts[1]);
    }
    default:
      return "?";
  }
}

void AppendValues(const Tensor& tensor, int dim, const std::byte* at, std::string& text) {
  if (dim == tensor.header().rank()) {
    if (!text.empty()) text += ' ';
    text += Element(at, tensor.dtype());
    return;
  }
  for (int64_t i = 0; i < tensor.header().size(dim); ++i) {
    AppendValues(tensor, dim + 1, at + i * tensor.header().stride(dim) * tensor.header().itemsize(), text);
  }
}

class AgentChild {
 public:
  explicit AgentChild(Channel* channel) : channel_(channel) {}

  int Run() {
    for (;;) {
      const std::optional<std::string> text = channel_->Receive(std::chrono::hours(1));
      if (!text) return 0;  // the test hung up: end as a program does, with all destructors
      const Words words = SplitWords(*text);
      std::string answer;
      const Status done = words[0] == "fork" ? Fork(answer) : Obey(words, answer);
      if (words[0] == "fork" && done.code() == StatusCode::kCancelled) continue;
      const std::string reply = done.ok() ? answer : std::string(Message(done));
      channel_->Send(JoinWords({std::to_string(static_cast<int>(done.code())), reply}));
    }
  }

 private:
  // The child goes on in this very loop, on a socket of its own that comes from the test; it has no answer to
  // give (kCancelled).
  Status Fork(std::string& answer) {
    std::byte mark{};
    TB_ASSIGN_OR_RETURN(Received received, RecvWithFd(channel_->fd(), {&mark, 1}));
    const pid_t child = fork();
    if (child == 0) {
      *channel_ = Channel(std::move(received.fd));
      children_.clear();
      return CancelledError("");
    }
    children_.push_back(child);
    answer = std::to_string(child);
    return OkStatus();
  }

  StatusOr<Tensor> Find(const std::string& variable) const {
    const auto found = tensors_.find(variable);
    if (found == tensors_.end()) return InternalError("no variable " + variable);
    return found->second;
  }

  Status Keep(const std::string& variable, StatusOr<Tensor> tensor) {
    TB_RETURN_IF_ERROR(tensor.status());
    tensors_.insert_or_assign(variable, *std::move(tensor));
    return OkStatus();
  }

  static StatusOr<Tensor> Bytes(StatusOr<Storage> storage) {
    TB_RETURN_IF_ERROR(storage.status());
    TB_ASSIGN_OR_RETURN(Header header, Header::Contiguous({storage->nbytes()}, DType::kUInt8));
    return Tensor::Over(*std::move(storage), std::move(header));
  }

  Status Obey(const Words& words, std::string& answer) {
    if (words[0] == "connect") {
      TB_ASSIGN_OR_RETURN(Client client, Client::Connect({.socket = words[1],
                                                          .label = words[2],
                                                          .deadline = Duration(std::stoll(words[3]))}));
      client_ = std::move(client);
      return OkStatus();
    }
    if (std::optional<Status> done = OnItself(words, answer)) return *done;
    if (std::optional<Status> done = OnBytes(words, answer)) return *done;
    if (!client_) return InternalError("not connected");
    return OnBroker(words, answer);
  }

  // What concerns the process.
  std::optional<Status> OnItself(const Words& words, std::string& answer) {
    if (words[0] == "limit-fds") {
      const rlimit limit{std::stoul(words[1]), std::stoul(words[1])};
      return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? OkStatus() : InternalError(strerror(errno));
    }
    if (words[0] == "limit-address-space") {  // what is in use, and so many bytes more
      std::ifstream statm("/proc/self/statm");
      uint64_t pages = 0;
      statm >> pages;
      const rlim_t bytes = pages * static_cast<uint64_t>(getpagesize()) + std::stoul(words[1]);
      const rlimit limit{bytes, RLIM_INFINITY};
      return setrlimit(RLIMIT_AS, &limit) == 0 ? OkStatus() : InternalError(strerror(errno));
    }
    if (words[0] == "use-up-mappings") {
      UseUpMappings();
      return OkStatus();
    }
    if (words[0] == "count-mappings") {  // whose line holds the text
      std::ifstream maps("/proc/self/maps");
      int64_t count = 0;
      for (std::string line; std::getline(maps, line);) count += line.find(words[1]) != std::string::npos;
      answer = std::to_string(count);
      return OkStatus();
    }
    if (words[0] == "exec-child") {  // fork and exec of a program that lives until it is killed
      const pid_t child = fork();
      if (child == 0) {
        execl("/bin/sleep", "sleep", "1000", static_cast<char*>(nullptr));
        _exit(127);
      }
      children_.push_back(child);
      answer = std::to_string(child);
      return OkStatus();
    }
    if (words[0] == "reap") {
      int status = 0;
      if (waitpid(static_cast<pid_t>(std::stol(words[1])), &status, 0) < 0)
        return InternalError(strerror(errno));
      answer = WIFEXITED(status) ? std::to_string(WEXITSTATUS(status)) : "signal";
      return OkStatus();
    }
    if (words[0] == "getpid") {
      answer = std::to_string(getpid());
      return OkStatus();
    }
    return std::nullopt;
  }

  // Pages of one reservation with alternating protection: each is a mapping of its own to the kernel.
  void UseUpMappings() {
    std::ifstream file("/proc/sys/vm/max_map_count");
    size_t count = 0;
    file >> count;
    const auto page = static_cast<size_t>(getpagesize());
    void* base =
        mmap(nullptr, (count + 16) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return;
    for (size_t i = 1; i < count; i += 2) {
      if (mprotect(static_cast<char*>(base) + i * page, page, PROT_READ) != 0) break;
    }
    // The last ones: no two neighbours alike, so that the kernel joins none.
    for (int i = 0; i < 16; ++i) {
      const int protection = i % 2 == 0 ? PROT_READ : PROT_READ | PROT_WRITE;
      if (mmap(nullptr, page, protection, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    }
  }

  std::optional<Status> OnBytes(const Words& words, std::string& answer) {
    if (words[0] == "check" || words[0] == "write" || words[0] == "fill") {
      const StatusOr<Tensor> tensor = Find(words[1]);
      if (!tensor.ok()) return tensor.status();
      const Storage& storage = tensor->storage();
      if (words[0] == "write") {
        if (storage.mutable_bytes().empty()) return FailedPreconditionError("not writable");
        FillPattern(storage.mutable_bytes(), std::stoull(words[2]));
      } else if (words[0] == "fill") {
        if (storage.mutable_bytes().empty()) return FailedPreconditionError("not writable");
        memset(storage.mutable_bytes().data(), std::stoi(words[2]), storage.mutable_bytes().size());
      } else {
        if (static_cast<int64_t>(storage.bytes().size()) != storage.nbytes())
          return InternalError("not mapped");
        const int64_t wrong = FirstWrongByte(storage.bytes(), std::stoull(words[2]));
        if (wrong >= 0) return InternalError(fmt::format("byte {} of {} is wrong", wrong, storage.nbytes()));
      }
      return OkStatus();
    }
    if (words[0] == "values" || words[0] == "header" || words[0] == "mapped" || words[0] == "nbytes") {
      const StatusOr<Tensor> tensor = Find(words[1]);
      if (!tensor.ok()) return tensor.status();
      if (words[0] == "header") answer = ToString(tensor->header());
      if (words[0] == "mapped") answer = tensor->storage().mapped() ? "yes" : "no";
      if (words[0] == "nbytes") answer = std::to_string(tensor->storage().nbytes());
      if (words[0] != "values") return OkStatus();
      if (tensor->data_ptr() == nullptr) return InternalError("not mapped");
      AppendValues(*tensor, 0, static_cast<const std::byte*>(tensor->data_ptr()), answer);
      return OkStatus();
    }
    if (words[0] == "map") {
      const StatusOr<Tensor> tensor = Find(words[1]);
      return tensor.ok() ? tensor->Map() : tensor.status();
    }
    if (words[0] == "drop") {
      if (tensors_.erase(words[1]) == 0 && copies_.erase(words[1]) == 0)
        return InternalError("no such variable");
      return OkStatus();
    }
    if (words[0] == "drop-all") {
      tensors_.clear();
      copies_.clear();
      return OkStatus();
    }
    if (words[0] == "views") {  // so many headers on one variable's Storage, kept
      const StatusOr<Tensor> tensor = Find(words[1]);
      if (!tensor.ok()) return tensor.status();
      for (int64_t i = 0; i < std::stoll(words[2]); ++i) {
        StatusOr<Tensor> view = tensor->Narrow(0, i % tensor->numel(), 1);
        if (!view.ok()) return view.status();
        copies_[words[1] + "/views"].push_back(*std::move(view));
      }
      return OkStatus();
    }
    return std::nullopt;
  }

  Status OnBroker(const Words& words, std::string& answer) {
    const std::string& command = words[0];
    if (command == "create" || command == "reserve") {
      TB_ASSIGN_OR_RETURN(Tensor tensor,
                          Bytes(client_->CreateStorage(std::stoll(words[2]), {.map = command == "create"})));
      if (command == "create") FillPattern(tensor.storage().mutable_bytes(), std::stoull(words[3]));
      answer = ToString(tensor.storage().id());
      return Keep(words[1], std::move(tensor));
    }
    if (command == "create-many") {
      for (int i = 0; i < std::stoi(words[2]); ++i) {
        TB_RETURN_IF_ERROR(
            Keep(fmt::format("{}/{}", words[1], i),
                 Bytes(client_->CreateStorage(std::stoll(words[3]), {.map = words[4] == "map"}))));
      }
      return OkStatus();
    }
    if (command == "publish") {
      TB_ASSIGN_OR_RETURN(const Tensor tensor, Find(words[1]));
      PublishOptions options;
      if (words[3].find("replace") != std::string::npos) options.replace = true;
      if (words[3].find("session") != std::string::npos) options.lifetime = NameLifetime::kSession;
      return tensor.Publish(words[2], options);
    }
    if (command == "open") {
      return Keep(words[1], client_->Open(words[2], {.timeout = Duration(std::stoll(words[3])),
                                                     .writable = words[4] == "rw"}));
    }
    if (command == "attach") {
      StorageId id;
      TB_RETURN_IF_ERROR(ParseId(words[2], &id));
      return Keep(words[1], Bytes(client_->Attach(id, {.writable = words[3] == "rw"})));
    }
    if (command == "flush") return client_->Flush();
    if (command == "rename") return client_->Rename(words[1], words[2], true);
    if (command == "stop-broker") return client_->inspector().Stop().status();
    if (command == "unpublish") return client_->Unpublish(words[1]);
    if (command == "delete") {
      StorageId id;
      TB_RETURN_IF_ERROR(ParseId(words[1], &id));
      TB_ASSIGN_OR_RETURN(const int64_t holders, client_->Delete(id));
      answer = std::to_string(holders);
      return OkStatus();
    }
    if (command == "export") {
      TB_ASSIGN_OR_RETURN(const Tensor tensor, Find(words[1]));
      TB_ASSIGN_OR_RETURN(const std::string handle, tensor.Export());
      answer = ToHex(handle);
      return OkStatus();
    }
    if (command == "import") return Keep(words[1], client_->Import(FromHex(words[2])));
    if (command == "count") {
      int64_t count = 0;
      TB_RETURN_IF_ERROR(
          client_->inspector().List({.prefix = words[1]}, [&](const StorageRecord&) { ++count; }));
      answer = std::to_string(count);
      return OkStatus();
    }
    if (command == "watch-and-block") return WatchAndBlock(words[1]);
    if (command == "unblock") {
      const MutexLock lock(mutex_);
      blocked_ = false;
      changed_.NotifyAll();
      return OkStatus();
    }
    if (command == "await-event") {  // of that name, within so many milliseconds
      const MutexLock lock(mutex_);
      const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), std::stoi(words[2]) * 1ms);
      while (last_name_ != words[1] && changed_.WaitUntil(mutex_, deadline)) {
      }
      return last_name_ == words[1] ? OkStatus() : DeadlineExceededError("the last name was " + last_name_);
    }
    if (command == "count-events") {  // "SEEN LOST"; ends the watch
      subscription_.reset();
      const MutexLock lock(mutex_);
      answer = fmt::format("{} {}", seen_, lost_);
      return OkStatus();
    }
    if (command == "session") {
      answer = ToString(client_->session_id());
      return OkStatus();
    }
    return InternalError("no such command: " + command);
  }

  // The callback blocks at the first event until "unblock".
  Status WatchAndBlock(const std::string& prefix) {
    subscription_.reset();
    {
      const MutexLock lock(mutex_);
      blocked_ = true;
      seen_ = lost_ = 0;
      last_name_.clear();
    }
    TB_ASSIGN_OR_RETURN(Subscription subscription, client_->OnEvent(
                                                       [this](const Event& event) {
                                                         const MutexLock lock(mutex_);
                                                         while (blocked_) changed_.Wait(mutex_);
                                                         if (event.kind == EventKind::kLagged) {
                                                           lost_ += event.lost;
                                                         } else {
                                                           ++seen_;
                                                         }
                                                         last_name_ = event.name;
                                                         changed_.NotifyAll();
                                                       },
                                                       prefix));
    subscription_ = std::move(subscription);
    return OkStatus();
  }

  Channel* const channel_;
  Mutex mutex_;
  CondVar changed_;
  bool blocked_ TB_GUARDED_BY(mutex_) = false;
  uint64_t seen_ TB_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ TB_GUARDED_BY(mutex_) = 0;
  std::string last_name_ TB_GUARDED_BY(mutex_);
  std::optional<Client> client_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::vector<Tensor>> copies_;
  std::vector<pid_t> children_;
  std::optional<Subscription> subscription_;  // last: it ends before what its callback uses
};

TB_CHILD(Agent) { return AgentChild(&channel).Run(); }

}  // namespace
}  // namespace tensorbroker::testing
