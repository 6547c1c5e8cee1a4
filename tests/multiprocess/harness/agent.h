// A client process that a test drives by remote control: "create this, publish it, check the bytes, fork".
//
// Cases speak of processes A, B and C; each is an Agent here. It keeps its tensors in variables with names.
// Bytes are a pattern that a seed gives, so that any process can say whether they are right.
#ifndef TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_AGENT_H_
#define TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_AGENT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tests/multiprocess/harness/process.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {

// The bytes that `seed` stands for.
void FillPattern(std::span<std::byte> bytes, uint64_t seed);
// The index of the first byte that is not the pattern's; -1 where all are.
int64_t FirstWrongByte(std::span<const std::byte> bytes, uint64_t seed);

inline constexpr int64_t kMiB = 1024 * 1024;

struct AgentOptions {
  LaunchOptions launch;
  std::string socket;  // empty: the client library's default
  std::string label;
  Duration deadline = std::chrono::seconds(30);  // of the client's calls
  bool connect = true;
};

class Agent {
 public:
  Agent() = default;
  Agent(Agent&&) = default;
  Agent& operator=(Agent&&) = default;
  ~Agent();

  // A fresh process, connected to the broker where `connect` is set (the test fails where it cannot).
  static Agent Start(const AgentOptions& options);

  // As the client's calls of these names; `variable` is where the Tensor goes, or is.
  Status Connect(std::string_view socket, std::string_view label = {}, Duration deadline = 30s);
  // uint8 of (bytes), filled with the pattern of `seed`.
  StatusOr<StorageId> Create(std::string_view variable, int64_t bytes, uint64_t seed);
  // The same, mapped on demand: no byte is touched.
  StatusOr<StorageId> Reserve(std::string_view variable, int64_t bytes);
  // `count` Storages of `bytes`, mapped where `map`, in variables "prefix/0", ...
  Status CreateMany(std::string_view prefix, int count, int64_t bytes, bool map);
  Status Publish(std::string_view variable, std::string_view name, std::string_view flags = {});
  Status Open(std::string_view variable, std::string_view name, Duration timeout = Duration{0},
              bool writable = false);
  Status Attach(std::string_view variable, StorageId id, bool writable = false);
  // INTERNAL where a byte is wrong.
  Status Check(std::string_view variable, uint64_t seed);
  Status Write(std::string_view variable, uint64_t seed);
  Status FillWith(std::string_view variable, int byte);
  // The elements as text, read through the header's strides: "3 2 1 0".
  StatusOr<std::string> Values(std::string_view variable);
  // "float32 (2, 3) strides (3, 1) offset 0 B cpu".
  StatusOr<std::string> HeaderOf(std::string_view variable);
  Status Drop(std::string_view variable);
  Status Flush();
  Status Delete(StorageId id, int64_t* holders = nullptr);
  StatusOr<std::string> Export(std::string_view variable);
  Status Import(std::string_view variable, std::string_view handle);
  StatusOr<int64_t> CountNames(std::string_view prefix);

  // Any other command of the agent: see agent_child.cc.
  Status Do(std::vector<std::string> words, std::string* answer = nullptr, Duration limit = kHang);
  // The same in two halves, for calls that wait.
  void Begin(std::vector<std::string> words);
  Status End(std::string* answer = nullptr, Duration limit = kHang);

  // A forked child of the agent, driven in the same way.
  Agent Fork();

  pid_t pid() const { return pid_; }
  bool Ended() const;
  // SIGKILL; returns when it is dead.
  void Kill();
  // The test means to end it in another way: Finish asks nothing then.
  void ExpectDeath() { killed_ = true; }
  void Signal(int signal) const;
  // Ends it as a program ends; the test fails where its exit code is not 0.
  void Finish();
  bool valid() const { return pidfd_.valid(); }
  std::string Stderr() const { return process_ ? process_->Stderr() : ""; }

 private:
  std::unique_ptr<Process> process_;  // none in a forked one: its parent reaps it
  pid_t pid_ = -1;
  Fd pidfd_;
  Channel channel_{Fd()};
  bool killed_ = false;
};

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_AGENT_H_
