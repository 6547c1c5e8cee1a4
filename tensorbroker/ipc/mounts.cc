#include "tensorbroker/ipc/mounts.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "tensorbroker/base/text.h"
#include "tensorbroker/ipc/system_files.h"

namespace tensorbroker {
namespace {

// The kernel writes space, tab, newline and backslash as \040, \011, \012 and \134.
std::string Unescape(std::string_view text) {
  const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '7'; };
  std::string plain;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\\' && digit(at + 1) && digit(at + 2) && digit(at + 3)) {
      plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 + (text[at + 3] - '0'));
      at += 3;
    } else {
      plain += text[at];
    }
  }
  return plain;
}

}  // namespace

std::vector<Mount> ReadMounts(const std::string& root) {
  std::vector<Mount> mounts;
  const std::string text = ReadSystemFile(root + "/proc/self/mountinfo").value_or("");
  ForEachLine(text, [&](std::string_view line) {
    // "31 23 0:27 ROOT MOUNTPOINT OPTIONS [tags] - TYPE SOURCE SUPER_OPTIONS"
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) return;
    std::istringstream head{std::string(line.substr(0, dash))};
    std::istringstream tail{std::string(line.substr(dash + 3))};
    std::string id, parent, source;
    Mount mount;
    head >> id >> parent >> mount.device >> mount.root >> mount.mount_point;
    tail >> mount.type >> source >> mount.options;
    mount.root = Unescape(mount.root);
    mount.mount_point = Unescape(mount.mount_point);
    mounts.push_back(std::move(mount));
  });
  return mounts;
}

std::optional<std::string> MountOption(std::string_view options, std::string_view name) {
  while (!options.empty()) {
    const std::string_view option = options.substr(0, options.find(','));
    options.remove_prefix(std::min(option.size() + 1, options.size()));
    if (option == name) return "";
    if (option.starts_with(name) && option.substr(name.size()).starts_with('=')) {
      return std::string(option.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

}  // namespace tensorbroker
