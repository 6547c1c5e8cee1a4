// The gRPC connections by descriptor: who is at the other end, and whether a session came of it.
#ifndef TENSORBROKER_SERVER_CONNECTIONS_H_
#define TENSORBROKER_SERVER_CONNECTIONS_H_

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_map>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/mutex.h"
#include "tensorbroker/ipc/event_loop.h"
#include "tensorbroker/ipc/peer.h"
#include "tensorbroker/server/sessions.h"

namespace tensorbroker {

// gRPC owns a connection's descriptor and does not say when it closes it. So this table keeps a second descriptor of the
// same socket: it sees the peer hang up, and can shut down a connection that opens no session in time, whatever gRPC has
// done with the first. Find is thread-safe; all else belongs to the loop's thread.
class Connections {
 public:
  Connections(EventLoop* loop, Duration session_within) : loop_(loop), session_within_(session_within) {}
  ~Connections();

  // Takes a connection; gives the descriptor to hand to gRPC, which owns it from then on.
  // kResourceExhausted  no descriptor left
  StatusOr<Fd> Add(Fd socket, PeerIdentity peer);
  // By gRPC's name of a peer, "fd:N"; null where the connection is gone.
  std::shared_ptr<Connection> Find(std::string_view peer) const;
  size_t CountOf(uid_t uid) const;
  void Clear();

 private:
  struct Entry {
    int number = 0;  // gRPC's descriptor
    Fd watch;        // ours, of the same socket
    std::shared_ptr<Connection> connection;
    EventLoop::TimerId timer = 0;
  };
  void Remove(const std::shared_ptr<Entry>& entry);

  EventLoop* const loop_;
  const Duration session_within_;
  std::unordered_map<uid_t, size_t> counts_;
  mutable Mutex mutex_;
  std::unordered_map<int, std::shared_ptr<Entry>> entries_ TB_GUARDED_BY(mutex_);
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_SERVER_CONNECTIONS_H_
