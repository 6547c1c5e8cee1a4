#include "tests/multiprocess/harness/fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

namespace tensorbroker::testing {
namespace {

namespace fs = std::filesystem;

// What gRPC and the sanitizers keep for the life of the process is no leak; a Segment, a socket or a pidfd is.
bool MayStay(const std::string& target) {
  return target.find("[eventpoll]") != std::string::npos || target.find("[eventfd]") != std::string::npos ||
         target.find("[timerfd]") != std::string::npos;
}

std::set<std::string> OwnDescriptors() {
  std::set<std::string> set;
  for (std::string& line : DescriptorsOf(getpid())) {
    if (!MayStay(line)) set.insert(std::move(line));
  }
  return set;
}

bool SanitizerSpoke(const std::string& text) {
  return text.find("Sanitizer") != std::string::npos || text.find("runtime error:") != std::string::npos;
}

// Children that nobody waited for; zombies are reaped.
std::vector<pid_t> StrayChildren() {
  for (;;) {
    const pid_t ended = waitpid(-1, nullptr, WNOHANG);
    if (ended < 0) return {};
    if (ended == 0) break;
  }
  std::vector<pid_t> strays;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const Fd file(open((entry.path() / "stat").c_str(), O_RDONLY | O_CLOEXEC));
    char text[512] = {};
    if (!file.valid() || read(file.get(), text, sizeof text - 1) <= 0) continue;
    const char* after_name = strrchr(text, ')');
    char state = 0;
    int parent = 0;
    if (after_name != nullptr && sscanf(after_name + 1, " %c %d", &state, &parent) == 2 &&
        parent == getpid()) {
      strays.push_back(static_cast<pid_t>(std::stol(name)));
    }
  }
  return strays;
}

}  // namespace

void ExpectError(const Status& status, StatusCode code, const std::vector<std::string>& texts,
                 const char* expression, const char* file, int line) {
  if (status.code() != code) {
    ADD_FAILURE_AT(file, line) << expression << "\n  gives " << status << "\n  not " << CodeName(code);
    return;
  }
  if (Message(status).size() > kMaxMessageBytes)
    ADD_FAILURE_AT(file, line) << "a message over 1 KiB: " << status;
  for (const std::string& text : texts) {
    if (Message(status).find(text) == std::string_view::npos) {
      ADD_FAILURE_AT(file, line) << expression << "\n  gives " << status << "\n  without the text: " << text;
    }
  }
}

// ---- EventLog

EventLog::EventLog(Client client, std::string_view prefix) {
  StatusOr<Subscription> subscription = client.OnEvent(
      [this](const Event& event) {
        const MutexLock lock(mutex_);
        events_.push_back(event);
        changed_.NotifyAll();
      },
      prefix);
  EXPECT_TRUE(subscription.ok()) << subscription.status();
  if (subscription.ok()) subscription_ = *std::move(subscription);
}

bool EventLog::WaitFor(const Matches& matches, Duration limit, int count) {
  const TimePoint deadline = DeadlineAfter(Clock::Real().Now(), limit);
  const MutexLock lock(mutex_);
  for (;;) {
    if (std::count_if(events_.begin(), events_.end(), matches) >= count) return true;
    if (Clock::Real().Now() >= deadline) return false;
    (void)changed_.WaitUntil(mutex_, deadline);
  }
}

bool EventLog::WaitForFreed(StorageId id, Duration limit) {
  return WaitFor([id](const Event& event) { return event.kind == EventKind::kFreed && event.storage == id; },
                 limit);
}

int EventLog::Count(const Matches& matches) {
  const MutexLock lock(mutex_);
  return static_cast<int>(std::count_if(events_.begin(), events_.end(), matches));
}

std::vector<Event> EventLog::All() {
  const MutexLock lock(mutex_);
  return events_;
}

// ---- MultiprocessTest

MultiprocessTest::MultiprocessTest() = default;
MultiprocessTest::~MultiprocessTest() = default;

void MultiprocessTest::SetUp() {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of agents become ours, and are found
  descriptors_before_ = OwnDescriptors();
}

void MultiprocessTest::TearDown() {
  client_.reset();
  StopAgents();
  if (broker_) {
    broker_->Stop();
    EXPECT_FALSE(SanitizerSpoke(broker_->log())) << broker_->log();
    broker_.reset();
  }
  EXPECT_TRUE(Eventually(kHang, [] { return StrayChildren().empty(); })) << "a child still lives";
  for (const pid_t stray : StrayChildren()) {
    ADD_FAILURE() << "stray child " << stray;
    kill(stray, SIGKILL);
  }
  EXPECT_TRUE(Eventually(kHang,
                         [&] {
                           const std::set<std::string> now = OwnDescriptors();
                           return std::includes(descriptors_before_.begin(), descriptors_before_.end(),
                                                now.begin(), now.end());
                         }))
      << "descriptors now: " << ::testing::PrintToString(OwnDescriptors())
      << "\nbefore: " << ::testing::PrintToString(descriptors_before_);
  for (const std::string& directory : directories_) {
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }
}

void MultiprocessTest::StopAgents() {
  for (Agent& agent : agents_) {
    agent.Signal(SIGCONT);
    agent.Finish();
  }
  for (Agent& agent : agents_) {
    EXPECT_FALSE(SanitizerSpoke(agent.Stderr())) << "agent " << agent.pid() << ":\n" << agent.Stderr();
  }
  agents_.clear();
}

void MultiprocessTest::StartBroker(std::vector<std::string> args) {
  StatusOr<std::unique_ptr<BrokerProcess>> broker = BrokerProcess::Start(std::move(args));
  ASSERT_TRUE(broker.ok()) << broker.status();
  broker_ = *std::move(broker);
  socket_ = broker_->socket();
}

Agent& MultiprocessTest::StartAgent(std::string label, LaunchOptions launch) {
  return StartAgent({.launch = std::move(launch), .socket = socket_, .label = std::move(label)});
}

Agent& MultiprocessTest::StartAgent(const AgentOptions& options) { return Adopt(Agent::Start(options)); }

Agent& MultiprocessTest::Adopt(Agent agent) {
  // Forked ones end before the processes that reap them.
  agents_.push_front(std::move(agent));
  return agents_.front();
}

Client& MultiprocessTest::client() {
  if (!client_) {
    StatusOr<Client> client = Client::Connect({.socket = socket_, .label = "the test"});
    if (!client.ok()) {
      ADD_FAILURE() << client.status() << (broker_ ? "\n" + broker_->log() : "");
      std::abort();  // nothing of the test can go on
    }
    client_ = *std::move(client);
  }
  return *client_;
}

BrokerInfo MultiprocessTest::Info() {
  StatusOr<BrokerInfo> info = inspector().Info();
  EXPECT_TRUE(info.ok()) << info.status();
  return info.ok() ? *info : BrokerInfo{};
}

bool MultiprocessTest::BooksAt(int64_t used_bytes, Duration limit) {
  return Eventually(limit, [&] { return UsedBytes() == used_bytes; });
}

std::optional<StorageRecord> MultiprocessTest::Find(StorageId id) {
  StatusOr<StorageRecord> record = inspector().Stat(id);
  if (!record.ok()) {
    EXPECT_EQ(record.status().code(), StatusCode::kNotFound) << record.status();
    return std::nullopt;
  }
  return *record;
}

int64_t MultiprocessTest::Holders(StorageId id) {
  const std::optional<StorageRecord> record = Find(id);
  return record ? int64_t{record->holder_count} : -1;
}

std::string MultiprocessTest::MakeDirectory(std::string_view parent) {
  std::string path = std::string(parent) + "/tb-test-XXXXXX";
  if (mkdtemp(path.data()) == nullptr || chmod(path.c_str(), 0755) != 0) {
    ADD_FAILURE() << path << ": " << strerror(errno);
  }
  directories_.push_back(path);
  return path;
}

// ---- TmpfsMount

TmpfsMount::TmpfsMount(std::string directory, int64_t bytes) : directory_(std::move(directory)) {
  mounted_ = mount("tmpfs", directory_.c_str(), "tmpfs", 0,
                   ("mode=1777,size=" + std::to_string(bytes)).c_str()) == 0;
}

TmpfsMount::~TmpfsMount() {
  if (mounted_) umount2(directory_.c_str(), MNT_DETACH);
}

int64_t TmpfsMount::FillUp() {
  const Fd file(open((directory_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const std::string chunk(1 << 16, 'x');
  int64_t total = 0;
  for (;;) {
    const ssize_t n = write(file.get(), chunk.data(), chunk.size());
    if (n <= 0) return total;
    total += n;
  }
}

std::vector<std::string> DescriptorsOf(pid_t pid) {
  std::vector<std::string> lines;
  std::error_code error;
  const fs::path directory = "/proc/" + std::to_string(pid) + "/fd";
  for (fs::directory_iterator i(directory, error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    const std::string target = fs::read_symlink(i->path(), gone);
    // The descriptor that reads this directory is none of the process's own.
    if (gone || target == directory) continue;
    lines.push_back(i->path().filename().string() + " " + target);
  }
  return lines;
}

}  // namespace tensorbroker::testing
