#include "tensorbroker/cli/host_facts.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

namespace tensorbroker::cli {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kFirstUserUid = 1000;  // logind calls uids below SYSTEM_UID_MAX (999) system users

std::optional<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string_view Trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<int64_t> ParseNumber(std::string_view text) {
  text = Trim(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end == text.data()) return std::nullopt;
  return number;
}

template <typename Visit>
void ForEachLine(std::string_view text, const Visit& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

// logind.conf, then the drop-ins in the order of their names; the last word counts, and yes is the default.
std::optional<bool> RemoveIpc() {
  std::error_code error;
  if (!fs::exists("/run/systemd/system", error) || !fs::exists("/run/systemd/seats", error))
    return std::nullopt;
  std::vector<fs::path> dropins;
  for (const char* directory :
       {"/usr/lib/systemd/logind.conf.d", "/run/systemd/logind.conf.d", "/etc/systemd/logind.conf.d"}) {
    for (const auto& entry : fs::directory_iterator(directory, error)) {
      if (entry.path().extension() == ".conf") dropins.push_back(entry.path());
    }
  }
  std::sort(dropins.begin(), dropins.end(),
            [](const auto& a, const auto& b) { return a.filename() < b.filename(); });
  dropins.insert(dropins.begin(), "/etc/systemd/logind.conf");
  bool remove = true;
  for (const fs::path& path : dropins) {
    if (const auto text = ReadFile(path)) remove = RemoveIpcSetting(*text).value_or(remove);
  }
  return remove;
}

bool Lingers(uint32_t uid) {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr) return false;
  std::error_code error;
  return fs::exists(fmt::format("/var/lib/systemd/linger/{}", found->pw_name), error);
}

std::optional<int64_t> CountEntries(const std::string& directory) {
  std::error_code error;
  int64_t count = 0;
  for (auto at = fs::directory_iterator(directory, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    ++count;
  }
  if (error) return std::nullopt;
  return count;
}

}  // namespace

std::optional<int64_t> MeminfoBytes(std::string_view text, std::string_view key) {
  std::optional<int64_t> bytes;
  ForEachLine(text, [&](std::string_view line) {
    if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':') return;
    if (const auto kib = ParseNumber(line.substr(key.size() + 1))) bytes = *kib * 1024;
  });
  return bytes;
}

std::optional<bool> RemoveIpcSetting(std::string_view text) {
  std::optional<bool> setting;
  ForEachLine(text, [&](std::string_view line) {
    line = Trim(line);
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos || Trim(line.substr(0, equals)) != "RemoveIPC") return;
    const std::string_view value = Trim(line.substr(equals + 1));
    if (value == "yes" || value == "true" || value == "on" || value == "1") setting = true;
    if (value == "no" || value == "false" || value == "off" || value == "0") setting = false;
  });
  return setting;
}

std::optional<int64_t> OpenFilesLimit(std::string_view text) {
  constexpr std::string_view kKey = "Max open files";
  std::optional<int64_t> limit;
  ForEachLine(text, [&](std::string_view line) {
    if (line.starts_with(kKey)) limit = ParseNumber(line.substr(kKey.size()));
  });
  return limit;
}

std::string MountHugeOption(std::string_view text, std::string_view directory) {
  std::string option;
  ForEachLine(text, [&](std::string_view line) {
    std::vector<std::string_view> words;
    for (size_t begin = 0; begin < line.size();) {
      const size_t end = std::min(line.find(' ', begin), line.size());
      words.push_back(line.substr(begin, end - begin));
      begin = end + 1;
    }
    if (words.size() < 4 || words[1] != directory) return;
    option.clear();  // the last mount on a directory is the one that is seen
    const std::string options = fmt::format(",{},", words[3]);
    const size_t at = options.find(",huge=");
    if (at == std::string::npos) return;
    const size_t begin = at + 6;
    option = options.substr(begin, options.find(',', begin) - begin);
  });
  return option;
}

std::string ChosenWord(std::string_view text) {
  const size_t begin = text.find('[');
  const size_t end = text.find(']', begin == std::string_view::npos ? 0 : begin);
  if (begin == std::string_view::npos || end == std::string_view::npos) return "";
  return std::string(text.substr(begin + 1, end - begin - 1));
}

HostFacts GatherHostFacts(int32_t broker_pid, uint32_t broker_uid) {
  HostFacts facts;
  if (const auto meminfo = ReadFile("/proc/meminfo")) {
    facts.swap_total_bytes = MeminfoBytes(*meminfo, "SwapTotal");
    const auto swap_free = MeminfoBytes(*meminfo, "SwapFree");
    if (facts.swap_total_bytes && swap_free) facts.swap_used_bytes = *facts.swap_total_bytes - *swap_free;
  }
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    facts.shm_size_bytes = static_cast<int64_t>(shm.f_blocks) * static_cast<int64_t>(shm.f_frsize);
  }
  facts.remove_ipc = RemoveIpc();
  facts.uid_is_system = broker_uid < kFirstUserUid;
  facts.uid_lingers = Lingers(broker_uid);
  if (broker_pid > 0) {
    if (const auto limits = ReadFile(fmt::format("/proc/{}/limits", broker_pid))) {
      facts.broker_fd_limit = OpenFilesLimit(*limits);
    }
    facts.broker_fds = CountEntries(fmt::format("/proc/{}/fd", broker_pid));
  }
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY) {
    facts.client_fd_limit = static_cast<int64_t>(files.rlim_cur);
  }
  if (const auto maps = ReadFile("/proc/sys/vm/max_map_count")) facts.max_map_count = ParseNumber(*maps);
  if (const auto huge = ReadFile("/sys/kernel/mm/transparent_hugepage/shmem_enabled")) {
    facts.shmem_huge_pages = ChosenWord(*huge);
  }
  if (const auto mounts = ReadFile("/proc/mounts"))
    facts.shm_mount_huge_pages = MountHugeOption(*mounts, "/dev/shm");
  return facts;
}

}  // namespace tensorbroker::cli
