// Processes by pidfd, and what /proc says of them for people to read.
#ifndef TENSORBROKER_IPC_PROCESS_H_
#define TENSORBROKER_IPC_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

// kNotFound           no such process
// kResourceExhausted  no descriptor left
StatusOr<Fd> PidfdOpen(pid_t pid);

// True once the process has ended (a zombie has). Never blocks.
bool PidfdHasEnded(int pidfd);

// Waits for the process's end; false when `timeout` passed first.
bool PidfdWait(int pidfd, Duration timeout);

// kNotFound          the process has ended
// kPermissionDenied  not ours to signal
Status PidfdSendSignal(int pidfd, int signal);

// The pidfd's inode where pidfs gives each process its own (Linux 6.9 and later); else nothing.
std::optional<uint64_t> PidfdInode(int pidfd);

// Arguments joined by spaces, control characters escaped, at most 256 bytes; "[comm]" where there are none.
// kNotFound  no such process, or not ours to read
StatusOr<std::string> ReadCommandLine(pid_t pid);

// Descriptors that the process has open; nothing where it is not there, or not ours to read.
std::optional<int64_t> CountFdsOf(pid_t pid);

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_PROCESS_H_
