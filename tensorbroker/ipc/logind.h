// What systemd-logind does to a user's shared memory when the user's last session ends: RemoveIPC= deletes it.
#ifndef TENSORBROKER_IPC_LOGIND_H_
#define TENSORBROKER_IPC_LOGIND_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>

namespace tensorbroker {

// `root` comes before "/etc/systemd/logind.conf", "/var/lib/systemd/linger", ...: for tests.

// The setting in force, as logind reads its files (yes where none says it); nothing where no logind runs.
std::optional<bool> RemoveIpc(const std::string& root = "");

// logind spares the files of system users.
bool IsSystemUser(uid_t uid);

// Whether `uid`'s user manager stays after the last logout (`loginctl enable-linger`): then its files do as well.
bool Lingers(uid_t uid, const std::string& root = "");

// What the last good assignment of RemoveIPC= in section [Login] of a logind.conf says.
std::optional<bool> RemoveIpcSetting(std::string_view text);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_LOGIND_H_
