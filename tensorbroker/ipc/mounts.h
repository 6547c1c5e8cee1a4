// What is mounted where, as this process sees it.
#ifndef TENSORBROKER_IPC_MOUNTS_H_
#define TENSORBROKER_IPC_MOUNTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensorbroker {

struct Mount {
  std::string device;       // "0:27"
  std::string root;         // what of the file system is seen: "/", or a directory of it
  std::string mount_point;  // "/dev/shm"
  std::string type;         // "tmpfs"
  std::string options;      // the file system's own: "rw,size=65536k,huge=advise"
};

// What /proc/self/mountinfo lists, in its order: a later mount hides an earlier one at the same place. Empty where it
// cannot be read. `root` comes before "/proc/self/mountinfo", for tests.
std::vector<Mount> ReadMounts(const std::string& root = "");

// What `name` has in "rw,size=4k,name=value": empty for an option without a value, nothing where it is not there.
std::optional<std::string> MountOption(std::string_view options, std::string_view name);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_MOUNTS_H_
