// One socket, two protocols: accepts, identifies the peer, looks at the first byte, hands the connection on.
#ifndef TENSORBROKER_IPC_DEMULTIPLEXER_H_
#define TENSORBROKER_IPC_DEMULTIPLEXER_H_

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/ipc/event_loop.h"
#include "tensorbroker/ipc/peer.h"

namespace tensorbroker {

// All callbacks run on the loop's thread and must not block. The sockets they get are nonblocking and unread.
struct DemultiplexerOptions {
  std::function<void(Fd, PeerIdentity)> on_grpc;           // first byte 'P', as HTTP/2's preface has it
  std::function<void(Fd, PeerIdentity)> on_lease;          // first byte 'T', as a lease's frame has it
  std::function<std::string(const PeerIdentity&)> refuse;  // why to close the connection, or ""; may be empty
  Duration first_byte_timeout = std::chrono::seconds(5);
  size_t max_pending = 1024;  // connections that have said nothing yet; more are closed at once
  std::function<size_t(uid_t)> max_pending_of;  // the same of one uid; empty: no less
};

// Lives on an EventLoop, whose thread makes, stops and destroys it. Owns the listener and the connections
// that have said nothing yet. Keeps a spare descriptor, so that EMFILE refuses the connection instead of
// spinning.
class Demultiplexer {
 public:
  // `listener` listens and does not block; `loop` outlives the result.
  // Errors as EventLoop::Add.
  static StatusOr<std::unique_ptr<Demultiplexer>> Start(EventLoop* loop, Fd listener,
                                                        DemultiplexerOptions options);
  ~Demultiplexer();

  // No connection is handed on after this returns. Idempotent.
  void StopAccepting();
  size_t pending() const;

 private:
  struct State;
  explicit Demultiplexer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_DEMULTIPLEXER_H_
