// The options of the client's calls. All are aggregates: `{.timeout = 5s}`.
#ifndef TENSORBROKER_CLIENT_OPTIONS_H_
#define TENSORBROKER_CLIENT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/tensor/device.h"

namespace tensorbroker {

struct ConnectOptions {
  // The broker's socket. Empty: $TENSORBROKER_SOCKET, else the first of
  // $XDG_RUNTIME_DIR/tensorbroker/broker.sock, /run/tensorbroker/broker.sock and
  // /tmp/tensorbroker-<uid>/broker.sock on which a broker answers.
  std::string socket;
  // What operators see beside the pid; empty: the program's name. At most 64 bytes.
  std::string label;
  // For each call that does not say otherwise.
  Duration deadline = std::chrono::seconds(30);
};

struct EmbeddedOptions {
  // Bytes; 0: what the machine's limits allow (`tensorctl info` says which binds).
  int64_t capacity_bytes = 0;
  // "memfd" (nothing is left behind, a small /dev/shm does not bind it), "shm" or "hugetlbfs".
  std::string memory = "memfd";
  // The tensorbrokerd to start. Empty: $TENSORBROKER_DAEMON, else beside this program, beside this library,
  // in $PATH.
  std::string daemon;
  std::string label;
  // More arguments for it, as on its command line.
  std::vector<std::string> arguments;
};

struct CreateOptions {
  Device device;
  bool requires_grad = false;
  // False: no mapping is made until Tensor::Map.
  bool map = true;
};

struct OpenOptions {
  // How long to wait for the name: 0 not at all (an unknown name is NOT_FOUND), kForever until it is there.
  Duration timeout{0};
  bool writable = false;
  // False: no mapping is made until Tensor::Map; to look at a header costs no address space.
  bool map = true;
};

enum class NameLifetime : uint8_t {
  kPersistent,  // until it is unpublished
  kSession,     // until this process's session ends
};

struct PublishOptions {
  // Also over a name whose publisher lives. (One's own name, and a dead publisher's, may be replaced
  // without.)
  bool replace = false;
  NameLifetime lifetime = NameLifetime::kPersistent;
  Duration ttl{0};  // 0: none
};

struct ListOptions {
  std::string prefix;
  bool holders = false;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_CLIENT_OPTIONS_H_
