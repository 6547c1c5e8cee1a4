// A directory of its own for a test, and a forked child for what needs another process or uid.
#ifndef TENSORBROKER_TESTS_IPC_SCRATCH_H_
#define TENSORBROKER_TESTS_IPC_SCRATCH_H_

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace tensorbroker::testing {

// Removes all that is in it at its end.
class ScratchDirectory {
 public:
  explicit ScratchDirectory(const std::string& parent = ::testing::TempDir()) {
    path_ = parent + "/tensorbroker-test-XXXXXX";
    if (mkdtemp(path_.data()) == nullptr) abort();
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  // Makes the file and its directories.
  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = *this / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

 private:
  std::string path_;
};

inline int CountOpenFds() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    count += entry.exists() ? 1 : 0;
  return count;
}

// Runs `body` in a forked child and gives its exit code, or 128 + the signal that ended it.
template <typename Body>
int InChild(Body body) {
  fflush(nullptr);
  const pid_t pid = fork();
  if (pid < 0) abort();
  if (pid == 0) _exit(body());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_IPC_SCRATCH_H_
