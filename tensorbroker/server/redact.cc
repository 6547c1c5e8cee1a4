#include "tensorbroker/server/redact.h"

#include <cctype>

namespace tensorbroker {

std::string WithoutPaths(std::string_view message) {
  std::string out;
  size_t i = 0;
  while (i < message.size()) {
    const bool starts = message[i] == '/' &&
                        (i == 0 || !std::isalnum(static_cast<unsigned char>(message[i - 1]))) &&
                        i + 1 < message.size() && std::isalpha(static_cast<unsigned char>(message[i + 1]));
    if (!starts) {
      out += message[i++];
      continue;
    }
    size_t end = i;
    while (end < message.size() &&
           std::string_view(" ,;:()'\"\n").find(message[end]) == std::string_view::npos)
      ++end;
    const std::string_view path = message.substr(i, end - i);
    const bool common = path == "/dev/shm" || path.starts_with("/proc/sys/");
    out += common ? path : std::string_view("the Segments' filesystem");
    i = end;
  }
  return out;
}

Status WithoutPaths(const Status& status) {
  return status.ok() ? status : MakeStatus(status.code(), WithoutPaths(Message(status)));
}

}  // namespace tensorbroker
