// Reads from /proc, /sys and /etc what `doctor` judges.
#ifndef TENSORBROKER_CLI_HOST_FACTS_H_
#define TENSORBROKER_CLI_HOST_FACTS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensorbroker/cli/doctor.h"

namespace tensorbroker::cli {

// Of this machine, and of the broker's process where `broker_pid` is not 0. Whatever cannot be read stays empty.
HostFacts GatherHostFacts(int32_t broker_pid, uint32_t broker_uid);

// ---- the parsers, pure

// Bytes of `key` ("MemTotal") in the text of /proc/meminfo.
std::optional<int64_t> MeminfoBytes(std::string_view text, std::string_view key);
// What the last assignment of RemoveIPC in the text of a logind.conf says.
std::optional<bool> RemoveIpcSetting(std::string_view text);
// The soft limit of "Max open files" in the text of /proc/PID/limits.
std::optional<int64_t> OpenFilesLimit(std::string_view text);
// The huge= option of the mount at `directory` in the text of /proc/mounts; empty: none.
std::string MountHugeOption(std::string_view text, std::string_view directory);
// The chosen word of a file such as "always within_size [never]".
std::string ChosenWord(std::string_view text);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_HOST_FACTS_H_
