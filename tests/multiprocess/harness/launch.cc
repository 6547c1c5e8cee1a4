#include "tests/multiprocess/harness/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/support/child_process.h"

namespace tensorbroker::testing {
namespace {

int Complain(std::string_view what) {
  fmt::print(stderr, "launch: {}: {}\n", what, strerror(errno));
  return 127;
}

bool JoinCgroup(const std::string& directory) {
  const Fd file(open((directory + "/cgroup.procs").c_str(), O_WRONLY | O_CLOEXEC));
  return file.valid() && write(file.get(), "0", 1) == 1;
}

bool MountDevShm(const std::string& bytes) {
  return unshare(CLONE_NEWNS) == 0 && mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, ("mode=1777,size=" + bytes).c_str()) == 0;
}

bool BecomeUid(uid_t uid, const std::vector<gid_t>& groups) {
  return setgroups(groups.size(), groups.data()) == 0 && setresgid(uid, uid, uid) == 0 &&
         setresuid(uid, uid, uid) == 0;
}

int WaitFor(pid_t child, int inherited) {
  close(inherited);  // so that its hang-up shows the program's end, not ours
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns in a process that has pid 7 in a new pid namespace. Its ancestors wait for it and end as it ends.
bool EnterPidNamespaceAsSeven(int inherited) {
  if (unshare(CLONE_NEWPID) != 0) return false;
  const pid_t first = fork();
  if (first < 0) return false;
  if (first > 0) _exit(WaitFor(first, inherited));
  for (;;) {  // pid 1 of the namespace
    const pid_t next = fork();
    if (next < 0) _exit(127);
    if (next == 0) {
      if (getpid() == 7) return true;
      _exit(0);
    }
    const bool last = next == 7;
    const int code = last ? WaitFor(next, inherited) : (waitpid(next, nullptr, 0), 0);
    if (last) _exit(code);
  }
}

int Launch(const std::vector<std::string>& words, int inherited) {
  size_t at = 0;
  while (at < words.size() && words[at] != "--") ++at;
  if (at + 1 >= words.size()) return Complain("no program");
  // Opened now: the new uid may not be able to walk to it.
  const Fd program(open(words[at + 1].c_str(), O_PATH | O_CLOEXEC));
  std::vector<gid_t> groups;
  for (size_t i = 0; i < at; ++i) {
    const size_t equals = words[i].find('=');
    const std::string key = words[i].substr(0, equals);
    const std::string value = words[i].substr(equals + 1);
    bool done = true;
    if (key == "cgroup") done = JoinCgroup(value);
    if (key == "dev_shm") done = MountDevShm(value);
    if (key == "pid_namespace") done = EnterPidNamespaceAsSeven(inherited);
    if (key == "descriptors") {
      const rlim_t most = std::stoul(value);
      const rlimit limit{most, most};
      done = setrlimit(RLIMIT_NOFILE, &limit) == 0;
    }
    if (key == "umask") umask(static_cast<mode_t>(std::stoul(value)));
    if (key == "group") groups.push_back(static_cast<gid_t>(std::stoul(value)));
    if (key == "uid") done = BecomeUid(static_cast<uid_t>(std::stoul(value)), groups);
    if (!done) return Complain(words[i]);
  }
  std::vector<std::string> args(words.begin() + static_cast<std::ptrdiff_t>(at) + 1, words.end());
  std::vector<char*> argv;
  for (std::string& word : args) argv.push_back(word.data());
  argv.push_back(nullptr);
  if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  fexecve(program.get(), argv.data(), environ);
  return Complain(args[0]);
}

TB_CHILD(Launch) { return Launch(arguments, channel.fd()); }

}  // namespace

std::vector<std::string> LaunchWords(const LaunchOptions& options) {
  std::vector<std::string> words;
  if (!options.cgroup.empty()) words.push_back("cgroup=" + options.cgroup);
  if (options.dev_shm_bytes > 0) words.push_back(fmt::format("dev_shm={}", options.dev_shm_bytes));
  if (options.pid_namespace) words.push_back("pid_namespace=1");
  if (options.descriptors > 0) words.push_back(fmt::format("descriptors={}", options.descriptors));
  if (options.umask) words.push_back(fmt::format("umask={}", *options.umask));
  for (const gid_t group : options.groups) words.push_back(fmt::format("group={}", group));
  if (options.uid) words.push_back(fmt::format("uid={}", *options.uid));
  if (words.empty()) return words;
  words.insert(words.begin(), {"launch", "--tb-child", "Launch", std::to_string(options.inherit)});
  words.push_back("--");
  return words;
}

}  // namespace tensorbroker::testing
