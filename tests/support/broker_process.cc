#include "tests/support/broker_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tensorbroker/client/daemon_program.h"
#include "tests/support/child_process.h"

namespace tensorbroker::testing {

namespace {

namespace fs = std::filesystem;

constexpr Duration kStartTimeout = std::chrono::seconds(30);

StatusOr<std::string> MakeTempDirectory(const std::string& parent) {
  std::string path = parent + "/tb-test-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "mkdtemp " + path);
  return path;
}

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string LastLines(const std::string& text) {
  return text.substr(text.size() > 2000 ? text.size() - 2000 : 0);
}

}  // namespace

namespace internal {
void Pause() { poll(nullptr, 0, 2); }
}  // namespace internal

std::string DaemonPath() {
  if (const char* path = getenv("TENSORBROKER_DAEMON")) return path;
  return TENSORBROKER_TEST_DAEMON;
}

StatusOr<std::unique_ptr<BrokerProcess>> BrokerProcess::Start(std::vector<std::string> arguments) {
  static std::atomic<int> count{0};
  std::unique_ptr<BrokerProcess> broker(new BrokerProcess);
  const char* temp = getenv("TMPDIR");
  TB_ASSIGN_OR_RETURN(broker->root_, MakeTempDirectory(temp != nullptr ? temp : "/tmp"));
  TB_ASSIGN_OR_RETURN(broker->shm_dir_, MakeTempDirectory("/dev/shm"));
  broker->socket_ = broker->root_ + "/broker.sock";
  broker->log_path_ = broker->root_ + "/log";
  broker->arguments_ = {DaemonPath(),
                        "--socket",
                        broker->socket_,
                        "--shm-dir",
                        broker->shm_dir_,
                        "--instance",
                        fmt::format("test-{}-{}", getpid(), count++),
                        "--log-level",
                        "info"};
  for (std::string& argument : arguments) broker->arguments_.push_back(std::move(argument));
  TB_RETURN_IF_ERROR(broker->Launch());
  return broker;
}

Status BrokerProcess::Launch() {
  const Fd log(open(log_path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return ErrnoStatus(errno, "open " + log_path_);
  TB_ASSIGN_OR_RETURN(const auto daemon, tensorbroker::internal::StartDaemon(arguments_, log, kStartTimeout));
  pid_ = daemon.pid;
  killed_ = false;
  return OkStatus();
}

BrokerProcess::~BrokerProcess() {
  if (pid_ != 0) {
    const int code = Stop();
    EXPECT_EQ(code, 0) << "tensorbrokerd's end; its log: " << LastLines(log());
  }
  if (!killed_) {
    EXPECT_EQ(SegmentFiles(), std::vector<std::string>{}) << "left in the shm directory";
  }
  EXPECT_EQ(CountFds(shm_dir_), 0) << "descriptors of Segments in this process";
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  fs::remove_all(shm_dir_, ignored);
}

void BrokerProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  WaitForExit(pid_);
  pid_ = 0;
  killed_ = true;
}

int BrokerProcess::Stop() {
  if (pid_ == 0) return 0;
  kill(pid_, SIGCONT);
  kill(pid_, SIGTERM);
  const pid_t pid = std::exchange(pid_, 0);
  int code = 0;
  if (WaitForExit(pid, std::chrono::seconds(20), &code)) return code;
  ADD_FAILURE() << "tensorbrokerd did not end within 20 s of SIGTERM; its log: " << LastLines(log());
  kill(pid, SIGKILL);
  killed_ = true;
  return WaitForExit(pid);
}

void BrokerProcess::Pause() {
  kill(pid_, SIGSTOP);
  int status = 0;
  waitpid(pid_, &status, WUNTRACED);
}

void BrokerProcess::Resume() { kill(pid_, SIGCONT); }

Status BrokerProcess::Restart() { return Launch(); }

std::string BrokerProcess::log() const { return ReadAll(log_path_); }

std::vector<std::string> BrokerProcess::SegmentFiles() const {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator i(shm_dir_, error), end; !error && i != end; i.increment(error)) {
    std::error_code ignored;
    if (i->is_regular_file(ignored) && i->path().filename() != "lock") files.push_back(i->path().string());
  }
  return files;
}

int64_t BrokerProcess::SegmentBytes() const {
  int64_t bytes = 0;
  for (const std::string& file : SegmentFiles()) {
    struct stat info {};
    if (stat(file.c_str(), &info) == 0) bytes += static_cast<int64_t>(info.st_blocks) * 512;
  }
  return bytes;
}

int CountFds(const std::string& prefix) {
  int count = 0;
  std::error_code error;
  for (fs::directory_iterator i("/proc/self/fd", error), end; !error && i != end; i.increment(error)) {
    std::error_code gone;
    if (fs::read_symlink(i->path(), gone).string().rfind(prefix, 0) == 0) ++count;
  }
  return count;
}

int CountMappings(const std::string& text) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) count += line.find(text) != std::string::npos ? 1 : 0;
  return count;
}

}  // namespace tensorbroker::testing
