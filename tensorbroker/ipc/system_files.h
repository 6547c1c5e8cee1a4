// Small files in which the kernel and its friends say how things are: /proc, /sys, /etc.
#ifndef TENSORBROKER_IPC_SYSTEM_FILES_H_
#define TENSORBROKER_IPC_SYSTEM_FILES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tensorbroker {

// All of it; nothing where it cannot be read.
std::optional<std::string> ReadSystemFile(const std::string& path);

// The number that a file begins with; nothing where it begins otherwise ("max") or cannot be read.
std::optional<int64_t> ReadNumber(const std::string& path);

// The number after `key` in a text of "key value" or "key: value" lines: meminfo, memory.stat, /proc/PID/limits.
std::optional<int64_t> NumberOfKey(std::string_view text, std::string_view key);

// "never" of "always within_size advise [never]"; empty where no word is chosen, or the file cannot be read.
std::string ChosenWord(std::string_view text);
std::string ReadChosenWord(const std::string& path);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_SYSTEM_FILES_H_
