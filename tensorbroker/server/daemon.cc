#include "tensorbroker/server/daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <memory>
#include <string>
#include <utility>

#include "tensorbroker/base/log.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/base/version.h"
#include "tensorbroker/ipc/demultiplexer.h"
#include "tensorbroker/server/broker.h"
#include "tensorbroker/server/connections.h"
#include "tensorbroker/server/grpc_server.h"
#include "tensorbroker/server/lease_server.h"
#include "tensorbroker/server/local_host.h"
#include "tensorbroker/server/machine.h"
#include "tensorbroker/server/socket_place.h"
#include "tensorbroker/server/uid_pool.h"
#include "tensorbroker/storage/segment_source.h"

namespace tensorbroker {
namespace {

constexpr int64_t kSmallTmpfsBytes = int64_t{1} << 30;
constexpr Duration kShutdownGrace = std::chrono::milliseconds(300);
constexpr char kNoGpu[] = "this build serves host memory only";

void RaiseFileLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// SIGTERM and SIGINT as a descriptor; the rest that could end the process by accident is ignored. Threads inherit the mask.
StatusOr<Fd> TakeSignals() {
  signal(SIGPIPE, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  Fd fd(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "signalfd");
  return fd;
}

struct Memory {
  std::unique_ptr<SegmentSource> source;
  Capacity capacity;
  std::unique_ptr<Budget> budget;
  std::unique_ptr<Headroom> headroom;
  std::string hint;  // what to do where it is short
};

StatusOr<Memory> OpenMemory(const DaemonOptions& options, const std::string& instance) {
  Memory memory;
  TB_ASSIGN_OR_RETURN(memory.source, OpenSource({options.memory, instance, options.shm_dir}));
  TB_ASSIGN_OR_RETURN(const SweepResult swept, memory.source->Sweep());
  if (swept.files > 0) {
    Log(LogLevel::kWarning, "swept",
        {{"files", swept.files}, {"bytes", swept.bytes}, {"why", "an earlier broker of this instance died"}});
  }
  if (options.capacity_bytes > 0) {
    memory.capacity.bytes = options.capacity_bytes;
    memory.capacity.bound_by = "--capacity";
  } else {
    TB_ASSIGN_OR_RETURN(memory.capacity, DefaultCapacity(*memory.source));
  }
  memory.budget = std::make_unique<Budget>(memory.capacity.bytes);
  memory.headroom = std::make_unique<Headroom>(options.memory);
  const FilesystemSpace space = memory.source->Space();
  memory.hint = "Drop tensors, or raise the broker's --capacity.";
  if (options.memory == SourceKind::kShm && space.total_bytes > 0 && space.total_bytes < kSmallTmpfsBytes) {
    memory.hint = fmt::format(
        "The tmpfs has {} in all: enlarge it (docker run --shm-size=8g, or mount -o "
        "remount,size=8G /dev/shm), or start the broker with --memory=memfd.",
        HumanBytes(space.total_bytes));
  }
  return memory;
}

BrokerInfo Facts(const DaemonOptions& options, const Memory& memory, const std::string& instance) {
  BrokerInfo facts;
  facts.version = kVersion;
  facts.instance = instance;
  facts.pid = getpid();
  facts.uid = geteuid();
  facts.started_unix_ns = Clock::Real().UnixNanos();
  facts.capacity_bound_by = memory.capacity.bound_by;
  facts.memory = Name(options.memory);
  facts.huge_pages = memory.source->info().huge_pages;
  facts.features = ProbeFeatures();
  facts.gpu_note = kNoGpu;
  if (std::string warning = RemoveIpcWarning(options.memory, geteuid()); !warning.empty()) {
    facts.warnings.push_back(std::move(warning));
  }
  if (memory.hint.find("--memory=memfd") != std::string::npos) facts.warnings.push_back(memory.hint);
  return facts;
}

// One broker's parts, in the order in which each needs the earlier ones.
class Daemon {
 public:
  Daemon(const DaemonOptions& options, SocketPlace place, std::string instance, Memory memory,
         std::unique_ptr<EventLoop> loop, Fd signals)
      : options_(options),
        place_(std::move(place)),
        instance_(std::move(instance)),
        memory_(std::move(memory)),
        loop_(std::move(loop)),
        signals_(std::move(signals)),
        epoch_(RandomNonZero64()),
        host_(loop_.get()),
        allocator_(epoch_, memory_.source.get(), memory_.budget.get(), memory_.headroom.get(),
                   [this](SegmentId segment) { broker_.SegmentRetired(segment); }),
        broker_(MakeOptions(), &allocator_, memory_.budget.get(), &host_),
        leases_(loop_.get(), &broker_, broker_.limits().bind_within),
        connections_(loop_.get(), broker_.limits().bind_within) {
    host_.Attach(&broker_, &leases_);
  }

  Status Serve();

 private:
  BrokerOptions MakeOptions();
  Status Listen();
  void Announce() const;
  void BeginStop(std::string_view why);
  void Finish();

  const DaemonOptions& options_;
  SocketPlace place_;
  const std::string instance_;
  const Memory memory_;
  const std::unique_ptr<EventLoop> loop_;
  const Fd signals_;
  const uint64_t epoch_;
  LocalHost host_;
  SegmentPerStorage allocator_;
  Broker broker_;
  LeaseServer leases_;
  Connections connections_;
  std::unique_ptr<GrpcServer> grpc_;
  std::unique_ptr<Demultiplexer> demultiplexer_;
  bool stopping_ = false;
};

BrokerOptions Daemon::MakeOptions() {
  BrokerOptions options;
  options.epoch = epoch_;
  options.limits.transfer_ttl = options_.transfer_ttl;
  options.admission = {geteuid(), options_.socket_group};
  options.facts = Facts(options_, memory_, instance_);
  options.shortage_hint = memory_.hint;
  options.look = [source = memory_.source.get()](BrokerInfo& info) {
    for (Limit& limit : MachineLimits()) info.limits.push_back(std::move(limit));
    const FilesystemSpace space = source->Space();
    info.filesystem_size_bytes = space.total_bytes;
    info.filesystem_free_bytes = space.free_bytes;
    if (std::string problem = source->Problem(); !problem.empty())
      info.warnings.push_back(std::move(problem));
  };
  return options;
}

Status Daemon::Listen() {
  TB_ASSIGN_OR_RETURN(Fd listener, place_.Listen(options_.socket_mode, options_.socket_group));
  DemultiplexerOptions options;
  options.on_grpc = [this](Fd socket, PeerIdentity peer) {
    StatusOr<Fd> added = connections_.Add(std::move(socket), std::move(peer));
    if (added.ok()) {
      grpc_->AddConnection(*std::move(added));
    } else {
      Log(LogLevel::kWarning, "connection_refused", {{"cause", Message(added.status())}});
    }
  };
  options.on_lease = [this](Fd socket, PeerIdentity peer) {
    leases_.Accept(std::move(socket), std::move(peer));
  };
  options.refuse = [this](const PeerIdentity& peer) -> std::string {
    const size_t there = connections_.CountOf(peer.uid) + leases_.CountOf(peer.uid);
    if (there < broker_.limits().connections_per_uid) return "";
    return fmt::format("uid {} has {} connections, which is its limit", peer.uid, there);
  };
  options.max_pending = broker_.limits().sessions;  // each process that connects is silent for a moment
  options.max_pending_of = [pool = options.max_pending](uid_t uid) { return ShareOf(uid, geteuid(), pool); };
  options.first_byte_timeout = broker_.limits().bind_within;
  TB_ASSIGN_OR_RETURN(demultiplexer_,
                      Demultiplexer::Start(loop_.get(), std::move(listener), std::move(options)));
  return OkStatus();
}

void Daemon::Announce() const {
  Log(LogLevel::kInfo, "serving",
      {{"socket", place_.path()},
       {"pid", getpid()},
       {"version", kVersion},
       {"instance", instance_},
       {"capacity", HumanBytes(memory_.capacity.bytes)},
       {"capacity_bytes", memory_.capacity.bytes},
       {"bound_by", memory_.capacity.bound_by},
       {"memory", Name(options_.memory)},
       {"place", memory_.source->info().place},
       {"huge_pages", memory_.source->info().huge_pages}});
  if (!memory_.capacity.remedy.empty()) {
    Log(LogLevel::kInfo, "capacity",
        {{"bound_by", memory_.capacity.bound_by}, {"to_raise_it", memory_.capacity.remedy}});
  }
  for (const std::string& warning : Facts(options_, memory_, instance_).warnings) {
    Log(LogLevel::kWarning, "warning", {{"text", warning}});
  }
}

void Daemon::BeginStop(std::string_view why) {
  if (std::exchange(stopping_, true)) return;
  Log(LogLevel::kInfo, "stopping",
      {{"why", why}, {"sessions", broker_.sessions()}, {"storages", broker_.storages()}});
  demultiplexer_
      ->StopAccepting();  // before gRPC's Shutdown: a connection added after it would still be served
  place_.RemoveSocket();
  leases_.NotifyAll(LeaseType::kStopping);
  broker_.BeginStop();
  loop_->Stop();
}

Status Daemon::Serve() {
  TB_RETURN_IF_ERROR(loop_->Add(signals_.get(), EPOLLIN, [this](uint32_t) {
    signalfd_siginfo info{};
    if (read(signals_.get(), &info, sizeof info) != sizeof info) return;
    BeginStop(info.ssi_signo == SIGTERM ? "SIGTERM" : "SIGINT");
  }));
  const Fd parent(options_.parent_pidfd);
  if (parent.valid()) {
    fcntl(parent.get(), F_SETFD, FD_CLOEXEC);  // it was inherited, so it was not
    TB_RETURN_IF_ERROR(loop_->Add(parent.get(), EPOLLIN, [this, &parent](uint32_t) {
      loop_->Remove(parent.get());
      BeginStop("the parent has ended");
    }));
  }
  TB_ASSIGN_OR_RETURN(grpc_, GrpcServer::Start(&broker_, &connections_, [this] {
                        loop_->Post([this] { BeginStop("a client asked for it"); });
                      }));
  const Status listening = Listen();
  if (listening.ok()) {
    Announce();
    if (options_.ready_fd >= 0) {
      const Fd ready(options_.ready_fd);
      const std::string line = fmt::format("ready {}\n", place_.path());
      if (write(ready.get(), line.data(), line.size()) < 0)
        Log(LogLevel::kWarning, "nobody_waits_for_the_start");
    }
    loop_->Run();
  }
  Finish();
  return listening;
}

void Daemon::Finish() {
  demultiplexer_.reset();
  grpc_->Shutdown(kShutdownGrace);
  host_.FinishWork();  // what is reserved late finds its caller gone
  leases_.Clear();
  allocator_.LeaveBytes();  // clients may read on in what they have mapped
  broker_.Clear();
  connections_.Clear();
  host_.Clear();
  grpc_.reset();
  Log(LogLevel::kInfo, "stopped");
}

}  // namespace

Status RunDaemon(const DaemonOptions& options) {
  SetLogLevel(options.log_level);
  RaiseFileLimit();
  TB_ASSIGN_OR_RETURN(Fd signals, TakeSignals());
  TB_ASSIGN_OR_RETURN(SocketPlace place, SocketPlace::Claim(options.socket, options.socket_group));
  std::string instance = options.instance.empty() ? place.InstanceName() : options.instance;
  TB_ASSIGN_OR_RETURN(Memory memory, OpenMemory(options, instance));
  TB_ASSIGN_OR_RETURN(std::unique_ptr<EventLoop> loop, EventLoop::Create());
  const std::string directory = place.path().substr(0, place.path().rfind('/'));
  const Status served = Daemon(options, std::move(place), std::move(instance), std::move(memory),
                               std::move(loop), std::move(signals))
                            .Serve();
  // A parent makes the directory for its embedded broker alone, and may have been killed: what is empty goes too.
  if (options.parent_pidfd >= 0) rmdir(directory.c_str());
  return served;
}

}  // namespace tensorbroker
