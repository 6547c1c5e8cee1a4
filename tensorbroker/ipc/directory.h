// Directories that nobody else has prepared for us, and the lock that says "this instance runs".
#ifndef TENSORBROKER_IPC_DIRECTORY_H_
#define TENSORBROKER_IPC_DIRECTORY_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <utility>

#include "tensorbroker/base/fd.h"
#include "tensorbroker/base/status.h"

namespace tensorbroker {

// How the instance name of a broker begins that serves one process and its children: no broker of that name starts again.
inline constexpr std::string_view kEmbeddedInstance = "embedded-";

enum class Create : bool { kNo = false, kYes = true };

// An O_DIRECTORY descriptor of `path`, whose last part is no link, whose owner is this uid, and whose mode is
// `mode` (whatever the umask is). With Create::kYes a missing one is made, its parent is not. A directory of
// ours with a wider mode is narrowed where that is all that differs.
// kNotFound            it is missing (or its parent is)
// kPermissionDenied    a link or another uid's directory stands there (squatting): the text says which, and
//                      whose
// kFailedPrecondition  something that is no directory stands there
StatusOr<Fd> OpenPrivateDirectory(const std::string& path, mode_t mode, Create create);

// An exclusive lock on a file, held until the object (or the process) ends. Not inherited over exec; a fork
// shares it.
class LockFile {
 public:
  // Takes `name` in `directory` (made with mode 0600) and writes this pid into it. Never blocks. The holder
  // may unlink the file before it lets go.
  // kNotFound          `directory` itself has been removed
  // kAlreadyExists     another process holds it: "already running, pid N"
  // kPermissionDenied  a link or another uid's file stands there
  static StatusOr<LockFile> Acquire(const Fd& directory, const std::string& name);

  LockFile(LockFile&&) = default;
  LockFile& operator=(LockFile&&) = default;

 private:
  explicit LockFile(Fd fd) : fd_(std::move(fd)) {}
  Fd fd_;
};

}  // namespace tensorbroker

#endif  // TENSORBROKER_IPC_DIRECTORY_H_
