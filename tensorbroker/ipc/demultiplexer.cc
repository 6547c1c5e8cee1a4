#include "tensorbroker/ipc/demultiplexer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tensorbroker/base/log.h"

namespace tensorbroker {
namespace {

constexpr char kGrpcByte = 'P';     // "PRI * HTTP/2.0"
constexpr char kLeaseByte = 'T';    // "TBL1"
constexpr int kAcceptsARound = 64;  // then others on the loop have their turn

Fd OpenSpare() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

// All of it belongs to the loop's thread. Callbacks on the loop hold it weakly: what is left of one after the
// Demultiplexer's end finds nothing.
struct Demultiplexer::State : std::enable_shared_from_this<Demultiplexer::State> {
  struct Pending {
    Fd fd;
    PeerIdentity peer;
    EventLoop::TimerId timer = 0;
  };

  State(EventLoop* loop, Fd listener, DemultiplexerOptions options)
      : loop(loop), listener(std::move(listener)), spare(OpenSpare()), options(std::move(options)) {}

  Status Start();
  void Stop();
  void Accept();
  void Admit(Fd fd);
  // At most a line a second: whoever may connect could fill a disk.
  void LogRefused(std::string_view cause);
  void RefuseForLackOfFds();
  void Peek(int fd, uint32_t events);
  Pending Take(int fd);
  void PauseAccepting();

  EventLoop* loop;
  Fd listener;
  Fd spare;
  DemultiplexerOptions options;
  std::unordered_map<int, Pending> pending;
  std::unordered_map<uid_t, size_t> pending_of;
  EventLoop::TimerId resume = 0;
  TimePoint next_refusal_line;
  uint64_t refused_without_line = 0;
};

Status Demultiplexer::State::Start() {
  return loop->Add(listener.get(), EPOLLIN, [weak = weak_from_this()](uint32_t) {
    if (const auto self = weak.lock()) self->Accept();
  });
}

void Demultiplexer::State::Stop() {
  if (listener.valid()) {
    loop->Remove(listener.get());
    listener.reset();
  }
  if (resume != 0) loop->Cancel(std::exchange(resume, 0));
  while (!pending.empty()) Take(pending.begin()->first);
}

void Demultiplexer::State::Accept() {
  for (int i = 0; i < kAcceptsARound && listener.valid(); ++i) {
    Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (fd.valid()) {
      Admit(std::move(fd));
      continue;
    }
    switch (errno) {
      case EAGAIN:
        return;
      case EINTR:
      case ECONNABORTED:
        continue;
      case EMFILE:
      case ENFILE:
        RefuseForLackOfFds();
        continue;
      default:
        // No memory for a socket, for one: the connection stays in the queue, and a level-triggered loop
        // would spin on it.
        Log(LogLevel::kError, "accept_failed", {{"error", Message(ErrnoStatus(errno, "accept"))}});
        PauseAccepting();
        return;
    }
  }
}

void Demultiplexer::State::RefuseForLackOfFds() {
  LogRefused(Message(ErrnoStatus(EMFILE, "accept")));
  if (!spare.valid()) {
    spare = OpenSpare();
    if (!spare.valid()) PauseAccepting();
    return;
  }
  spare.reset();
  Fd refused(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  const bool others_took_it = !refused.valid() && (errno == EMFILE || errno == ENFILE);
  refused.reset();  // frees the number for the spare
  spare = OpenSpare();
  if (others_took_it) PauseAccepting();
}

void Demultiplexer::State::PauseAccepting() {
  if (resume != 0 || !listener.valid()) return;
  (void)loop->Modify(listener.get(), 0);
  resume = loop->RunAfter(std::chrono::milliseconds(100), [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || !self->listener.valid()) return;
    self->resume = 0;
    if (!self->spare.valid()) self->spare = OpenSpare();
    (void)self->loop->Modify(self->listener.get(), EPOLLIN);
  });
}

void Demultiplexer::State::LogRefused(std::string_view cause) {
  const TimePoint now = Clock::Real().Now();
  if (now < next_refusal_line) {
    ++refused_without_line;
    return;
  }
  next_refusal_line = now + std::chrono::seconds(1);
  Log(LogLevel::kWarning, "connection_refused",
      {{"cause", cause}, {"others_since_the_last_line", std::exchange(refused_without_line, 0)}});
}

void Demultiplexer::State::Admit(Fd fd) {
  if (pending.size() >= options.max_pending) return LogRefused("too many connections that have said nothing");
  StatusOr<PeerIdentity> peer = IdentifyPeer(fd.get());
  if (!peer.ok()) return LogRefused(Message(peer.status()));
  const uid_t uid = peer->uid;
  if (const auto count = pending_of.find(uid);
      options.max_pending_of && count != pending_of.end() && count->second >= options.max_pending_of(uid)) {
    return LogRefused(fmt::format("too many connections of uid {} that have said nothing", uid));
  }
  if (options.refuse) {
    if (const std::string why = options.refuse(*peer); !why.empty()) return LogRefused(why);
  }
  const int number = fd.get();
  const Status added =
      loop->Add(number, EPOLLIN | EPOLLRDHUP, [weak = weak_from_this(), number](uint32_t events) {
        if (const auto self = weak.lock()) self->Peek(number, events);
      });
  if (!added.ok()) {
    Log(LogLevel::kError, "connection_refused", {{"cause", Message(added)}});
    return;
  }
  const EventLoop::TimerId timer = loop->RunAfter(options.first_byte_timeout, [weak = weak_from_this(),
                                                                               number] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const Pending silent = self->Take(number);
    Log(LogLevel::kInfo, "connection_closed", {{"cause", "said nothing"}, {"peer", silent.peer.ToString()}});
  });
  ++pending_of[uid];
  pending.emplace(number, Pending{std::move(fd), *std::move(peer), timer});
}

Demultiplexer::State::Pending Demultiplexer::State::Take(int fd) {
  loop->Remove(fd);
  auto node = pending.extract(fd);
  loop->Cancel(node.mapped().timer);
  const auto count = pending_of.find(node.mapped().peer.uid);
  if (--count->second == 0) pending_of.erase(count);
  return std::move(node.mapped());
}

void Demultiplexer::State::Peek(int fd, uint32_t) {
  char byte = 0;
  ssize_t got;
  do {
    got = recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return;
  Pending ready = Take(fd);
  if (got <= 0) return;  // closed without a word
  if (byte == kGrpcByte) {
    options.on_grpc(std::move(ready.fd), std::move(ready.peer));
  } else if (byte == kLeaseByte) {
    options.on_lease(std::move(ready.fd), std::move(ready.peer));
  } else {
    Log(LogLevel::kInfo, "connection_closed",
        {{"cause", "neither gRPC nor a lease"},
         {"first_byte", static_cast<int>(static_cast<unsigned char>(byte))},
         {"peer", ready.peer.ToString()}});
  }
}

Demultiplexer::Demultiplexer(std::shared_ptr<State> state) : state_(std::move(state)) {}

Demultiplexer::~Demultiplexer() { state_->Stop(); }

StatusOr<std::unique_ptr<Demultiplexer>> Demultiplexer::Start(EventLoop* loop, Fd listener,
                                                              DemultiplexerOptions options) {
  auto state = std::make_shared<State>(loop, std::move(listener), std::move(options));
  TB_RETURN_IF_ERROR(state->Start());
  return std::unique_ptr<Demultiplexer>(new Demultiplexer(std::move(state)));
}

void Demultiplexer::StopAccepting() { state_->Stop(); }

size_t Demultiplexer::pending() const { return state_->pending.size(); }

}  // namespace tensorbroker
