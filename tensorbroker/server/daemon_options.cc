#include "tensorbroker/server/daemon_options.h"

#include <grp.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "tensorbroker/base/units.h"
#include "tensorbroker/base/version.h"
#include "tensorbroker/server/config_file.h"

namespace tensorbroker {
namespace {

constexpr char kAbout[] =
    "tensorbrokerd owns tensor memory on this machine; other processes borrow it, without copies.\n"
    "Clients find it by its socket; `tensorctl info` shows what it does.";

constexpr char kExamples[] = R"(Examples:
  tensorbrokerd                                   serve this user; capacity from the machine's limits
  tensorbrokerd --capacity 8GiB --log-level info
  tensorbrokerd --memory memfd                    do not depend on the size of /dev/shm (containers)
  tensorbrokerd --memory hugetlbfs --shm-dir /dev/hugepages
  tensorbrokerd --socket /run/tb/broker.sock --socket-group ml     let a group's members connect
  tensorbrokerd --config /etc/tensorbroker/tensorbrokerd.conf      lines such as: capacity = 8GiB

It ends on SIGTERM and SIGINT, and removes its memory and its socket. Exit codes: 0 ended, 1 failed
(such as "already running"), 2 wrong usage.)";

// Each gives an empty text where `value` was good, as CLI11 wants it.
template <typename T, typename Parse>
std::function<std::string(const std::string&)> Store(T* target, Parse parse) {
  return [target, parse](const std::string& value) -> std::string {
    auto parsed = parse(value);
    if (!parsed.ok()) return std::string(Message(parsed.status()));
    *target = *std::move(parsed);
    return {};
  };
}

// The form of config_file.h: CLI11's own drops what follows a '#' even in quotes, and an unquoted space makes two values.
class ConfigFile : public CLI::Config {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& text) const override {
    const StatusOr<std::vector<ConfigEntry>> entries = ParseConfig(text);
    if (!entries.ok())
      throw CLI::ConfigError(std::string(Message(entries.status())));  // NOLINT: as CLI11 does
    std::vector<CLI::ConfigItem> items;
    for (const ConfigEntry& entry : *entries) {
      CLI::ConfigItem& item = items.emplace_back();
      item.name = entry.key;
      item.inputs = {entry.value};
    }
    return items;
  }
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }
};

StatusOr<mode_t> ParseMode(std::string_view text) {
  unsigned mode = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), mode, 8);
  if (error != std::errc() || end != text.data() + text.size() || mode > 0777) {
    return InvalidArgumentError("a mode is an octal number up to 0777, such as 0660");
  }
  return static_cast<mode_t>(mode);
}

StatusOr<gid_t> ParseGroup(const std::string& text) {
  gid_t gid = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), gid);
  if (error == std::errc() && end == text.data() + text.size()) return gid;
  const group* const found = getgrnam(text.c_str());  // before any thread is there
  if (found == nullptr) return NotFoundError("no such group: give a name from `getent group`, or a number");
  return found->gr_gid;
}

StatusOr<int64_t> ParseCapacity(std::string_view text) {
  TB_ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(text));
  if (bytes <= 0) return InvalidArgumentError("a capacity is more than 0 bytes");
  return bytes;
}

StatusOr<std::string> CheckShmDir(std::string text) {
  if (text.empty() || text.front() != '/') return InvalidArgumentError("an absolute path is needed");
  return text;
}

}  // namespace

std::optional<DaemonOptions> ParseDaemonOptions(int argc, char** argv, int* exit_code) {
  DaemonOptions options;
  CLI::App app(kAbout, "tensorbrokerd");
  app.footer(kExamples);
  app.set_version_flag("--version", std::string("tensorbrokerd ") + kVersion);
  app.set_config("--config", "", "A file with the same keys, one a line: key = value, or key = \"value\"");
  app.config_formatter(std::make_shared<ConfigFile>());
  app.allow_config_extras(CLI::config_extras_mode::error);
  const auto add = [&app](const char* name, const char* type, const char* help,
                          std::function<std::string(const std::string&)> store) {
    // A validator that stores: a bad value is an error of usage that names the option.
    app.add_option_function<std::string>(
           name,
           [store, name](const std::string& value) {
             const std::string error = store(value);
             if (!error.empty()) throw CLI::ValidationError(name, error);  // NOLINT: CLI11 reports errors so
           },
           help)
        ->type_name(type);
  };
  add("--capacity", "BYTES",
      "Memory to give out: 8GiB, 512MiB, ... (default: what the machine's limits allow)",
      Store(&options.capacity_bytes, ParseCapacity));
  add("--memory", "KIND", "shm (files in /dev/shm, the default), memfd or hugetlbfs",
      Store(&options.memory, ParseSourceKind));
  add("--shm-dir", "DIR", "The tmpfs or hugetlbfs directory for the memory's files (default: /dev/shm)",
      Store(&options.shm_dir, CheckShmDir));
  app.add_option(
         "--socket", options.socket,
         "Where clients connect (default: $XDG_RUNTIME_DIR/tensorbroker/broker.sock, "
         "/run/tensorbroker/broker.sock or /tmp/tensorbroker-<uid>/broker.sock, the first that can be made)")
      ->type_name("PATH")
      ->envname("TENSORBROKER_SOCKET");
  add("--socket-mode", "MODE", "The socket's mode (default: 0600; with --socket-group 0660)",
      Store(&options.socket_mode, ParseMode));
  add("--socket-group", "GROUP", "A group whose members may connect",
      Store(&options.socket_group, ParseGroup));
  app.add_option("--instance", options.instance,
                 "A name that stays over restarts: letters, digits, '-', '_', '.' (default: made from the "
                 "socket's path)")
      ->type_name("NAME");
  add("--transfer-ttl", "TIME",
      "How long a handle nobody loads lives after its sender's end: 10min, 30s, ...",
      Store(&options.transfer_ttl, ParseDuration));
  add("--log-level", "LEVEL", "debug, info (the default), warning, error or off; the log goes to stderr",
      Store(&options.log_level, ParseLogLevel));
  // Of an embedded broker's parent, and of who waits for the start: not for people.
  app.add_option("--parent-pidfd", options.parent_pidfd)->group("");
  app.add_option("--ready-fd", options.ready_fd)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);
    *exit_code = code == 0 ? 0 : 2;
    return std::nullopt;
  }
  return options;
}

}  // namespace tensorbroker
