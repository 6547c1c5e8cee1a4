#include "tensorbroker/ipc/logind.h"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "tensorbroker/base/text.h"
#include "tensorbroker/ipc/system_files.h"

namespace tensorbroker {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kFirstOrdinaryUid = 1000;  // login.defs's UID_MIN

// As systemd's parse_boolean.
std::optional<bool> ParseBoolean(std::string_view text) {
  std::string word(text);
  std::transform(word.begin(), word.end(), word.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view yes : {"1", "yes", "y", "true", "t", "on"}) {
    if (word == yes) return true;
  }
  for (const std::string_view no : {"0", "no", "n", "false", "f", "off"}) {
    if (word == no) return false;
  }
  return std::nullopt;
}

// The drop-ins by name: one in /etc hides one of the same name in /run, and that one in /usr/lib.
std::map<std::string, fs::path> DropIns(const std::string& root) {
  std::map<std::string, fs::path> found;
  for (const char* place : {"/etc", "/run", "/usr/local/lib", "/usr/lib"}) {
    std::error_code error;
    for (fs::directory_iterator at(fmt::format("{}{}/systemd/logind.conf.d", root, place), error), end;
         !error && at != end; at.increment(error)) {
      if (at->path().extension() == ".conf") found.emplace(at->path().filename().string(), at->path());
    }
  }
  return found;
}

}  // namespace

std::optional<bool> RemoveIpcSetting(std::string_view text) {
  std::optional<bool> setting;
  bool in_login = false;
  ForEachLine(text, [&](std::string_view line) {
    line = Trim(line);
    if (line.starts_with('[')) in_login = line == "[Login]";
    const size_t equals = line.find('=');
    if (!in_login || equals == std::string_view::npos || Trim(line.substr(0, equals)) != "RemoveIPC") return;
    if (const auto value = ParseBoolean(Trim(line.substr(equals + 1)))) setting = value;
  });
  return setting;
}

std::optional<bool> RemoveIpc(const std::string& root) {
  std::error_code error;
  if (!fs::exists(root + "/run/systemd/seats", error)) return std::nullopt;  // logind makes it
  bool remove = true;
  for (const char* place : {"/etc", "/run", "/usr/local/lib", "/usr/lib"}) {  // the first that is there
    if (const auto text = ReadSystemFile(fmt::format("{}{}/systemd/logind.conf", root, place))) {
      remove = RemoveIpcSetting(*text).value_or(remove);
      break;
    }
  }
  for (const auto& [name, path] : DropIns(root)) {
    if (const auto text = ReadSystemFile(path)) remove = RemoveIpcSetting(*text).value_or(remove);
  }
  return remove;
}

bool IsSystemUser(uid_t uid) { return uid < kFirstOrdinaryUid; }

bool Lingers(uid_t uid, const std::string& root) {
  char buffer[4096];
  passwd entry{};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr) return false;
  std::error_code error;
  return fs::exists(fmt::format("{}/var/lib/systemd/linger/{}", root, found->pw_name), error);
}

}  // namespace tensorbroker
