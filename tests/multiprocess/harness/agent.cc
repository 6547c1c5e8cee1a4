#include "tests/multiprocess/harness/agent.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "tensorbroker/ipc/process.h"
#include "tensorbroker/ipc/socket.h"
#include "tests/multiprocess/harness/words.h"

namespace tensorbroker::testing {
namespace {

uint64_t PatternWord(uint64_t seed, uint64_t index) {
  return (seed + 1) * 0x9E3779B97F4A7C15u + index * 0xBF58476D1CE4E5B9u;
}

std::pair<Fd, Fd> AgentSocketPair() {
  int ends[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) ADD_FAILURE() << strerror(errno);
  return {Fd(ends[0]), Fd(ends[1])};
}

std::string Number(int64_t number) { return std::to_string(number); }

}  // namespace

void FillPattern(std::span<std::byte> bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = PatternWord(seed, i / 8);
    memcpy(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i));
  }
}

int64_t FirstWrongByte(std::span<const std::byte> bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = PatternWord(seed, i / 8);
    if (memcmp(bytes.data() + i, &word, std::min<size_t>(8, bytes.size() - i)) != 0) {
      return static_cast<int64_t>(i);
    }
  }
  return -1;
}

Agent::~Agent() {
  // A forked one has no Process to end it.
  if (!process_ && pidfd_.valid() && !Ended()) Signal(SIGKILL);
}

Agent Agent::Start(const AgentOptions& options) {
  auto [ours, theirs] = AgentSocketPair();
  Agent agent;
  agent.process_ = std::make_unique<Process>(Process::StartChild("Agent", {}, theirs, options.launch));
  agent.channel_ = Channel(std::move(ours));
  agent.pid_ = agent.process_->pid();
  if (StatusOr<Fd> pidfd = PidfdOpen(agent.pid_); pidfd.ok()) agent.pidfd_ = *std::move(pidfd);
  theirs.reset();
  if (options.connect) {
    const Status connected = agent.Connect(options.socket, options.label, options.deadline);
    EXPECT_TRUE(connected.ok()) << connected << "\n" << agent.Stderr();
  }
  return agent;
}

// Where the agent is dead, End says so.
void Agent::Begin(std::vector<std::string> words) { (void)channel_.Send(JoinWords(words)); }

Status Agent::End(std::string* answer, Duration limit) {
  const std::optional<std::string> text = channel_.Receive(limit);
  if (!text) {
    return AbortedError(fmt::format("agent {} did not answer{}; its stderr: {}", pid_,
                                    Ended() ? " (it ended)" : "", Stderr()));
  }
  const std::vector<std::string> words = SplitWords(*text);
  const auto code = static_cast<StatusCode>(std::stoi(words[0]));
  if (code != StatusCode::kOk) return MakeStatus(code, words.at(1));
  if (answer != nullptr) *answer = words.size() > 1 ? words[1] : "";
  return OkStatus();
}

Status Agent::Do(std::vector<std::string> words, std::string* answer, Duration limit) {
  Begin(std::move(words));
  return End(answer, limit);
}

Status Agent::Connect(std::string_view socket, std::string_view label, Duration deadline) {
  return Do({"connect", std::string(socket), std::string(label), Number(deadline.count())});
}

StatusOr<StorageId> Agent::Create(std::string_view variable, int64_t bytes, uint64_t seed) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"create", std::string(variable), Number(bytes), std::to_string(seed)}, &answer));
  StorageId id;
  TB_RETURN_IF_ERROR(ParseId(answer, &id));
  return id;
}

StatusOr<StorageId> Agent::Reserve(std::string_view variable, int64_t bytes) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"reserve", std::string(variable), Number(bytes)}, &answer));
  StorageId id;
  TB_RETURN_IF_ERROR(ParseId(answer, &id));
  return id;
}

Status Agent::CreateMany(std::string_view prefix, int count, int64_t bytes, bool map) {
  return Do({"create-many", std::string(prefix), Number(count), Number(bytes), map ? "map" : "no"}, nullptr,
            3 * kHang);
}

Status Agent::Publish(std::string_view variable, std::string_view name, std::string_view flags) {
  return Do({"publish", std::string(variable), std::string(name), std::string(flags)});
}

Status Agent::Open(std::string_view variable, std::string_view name, Duration timeout, bool writable) {
  return Do(
      {"open", std::string(variable), std::string(name), Number(timeout.count()), writable ? "rw" : "ro"});
}

Status Agent::Attach(std::string_view variable, StorageId id, bool writable) {
  return Do({"attach", std::string(variable), ToString(id), writable ? "rw" : "ro"});
}

Status Agent::Check(std::string_view variable, uint64_t seed) {
  return Do({"check", std::string(variable), std::to_string(seed)});
}

Status Agent::Write(std::string_view variable, uint64_t seed) {
  return Do({"write", std::string(variable), std::to_string(seed)});
}

Status Agent::FillWith(std::string_view variable, int byte) {
  return Do({"fill", std::string(variable), Number(byte)});
}

StatusOr<std::string> Agent::Values(std::string_view variable) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"values", std::string(variable)}, &answer));
  return answer;
}

StatusOr<std::string> Agent::HeaderOf(std::string_view variable) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"header", std::string(variable)}, &answer));
  return answer;
}

Status Agent::Drop(std::string_view variable) { return Do({"drop", std::string(variable)}); }

Status Agent::Flush() { return Do({"flush"}); }

Status Agent::Delete(StorageId id, int64_t* holders) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"delete", ToString(id)}, &answer));
  if (holders != nullptr) *holders = std::stoll(answer);
  return OkStatus();
}

StatusOr<std::string> Agent::Export(std::string_view variable) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"export", std::string(variable)}, &answer));
  return FromHex(answer);
}

Status Agent::Import(std::string_view variable, std::string_view handle) {
  return Do({"import", std::string(variable), ToHex(handle)});
}

StatusOr<int64_t> Agent::CountNames(std::string_view prefix) {
  std::string answer;
  TB_RETURN_IF_ERROR(Do({"count", std::string(prefix)}, &answer));
  return std::stoll(answer);
}

Agent Agent::Fork() {
  auto [ours, theirs] = AgentSocketPair();
  Agent child;
  Begin({"fork"});
  // The agent is about to read this one message with the descriptor.
  const std::byte mark{'f'};
  EXPECT_TRUE(SendWithFd(channel_.fd(), {&mark, 1}, theirs.get()).ok());
  std::string answer;
  const Status forked = End(&answer);
  if (!forked.ok()) {
    ADD_FAILURE() << forked;
    return child;
  }
  child.channel_ = Channel(std::move(ours));
  child.pid_ = static_cast<pid_t>(std::stol(answer));
  if (StatusOr<Fd> pidfd = PidfdOpen(child.pid_); pidfd.ok()) child.pidfd_ = *std::move(pidfd);
  return child;
}

bool Agent::Ended() const { return !pidfd_.valid() || PidfdHasEnded(pidfd_.get()); }

void Agent::Signal(int signal) const {
  if (pidfd_.valid()) (void)PidfdSendSignal(pidfd_.get(), signal);
}

void Agent::Kill() {
  killed_ = true;
  Signal(SIGKILL);
  EXPECT_TRUE(PidfdWait(pidfd_.get(), kHang));
  if (process_) (void)process_->Wait();
}

void Agent::Finish() {
  if (!valid() || killed_) return;
  channel_.Close();
  EXPECT_TRUE(PidfdWait(pidfd_.get(), kHang)) << "agent " << pid_ << " does not end";
  if (!process_) return;
  killed_ = true;  // once
  const Exit exit = process_->Wait();
  EXPECT_TRUE(exit.in_time && exit.code == 0)
      << "agent " << pid_ << ": exit code " << exit.code << ", signal " << exit.signal << ", stderr:\n"
      << Stderr();
}

}  // namespace tensorbroker::testing
