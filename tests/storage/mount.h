// A small tmpfs (or hugetlbfs) of its own for a test; needs root.
#ifndef TENSORBROKER_TESTS_STORAGE_MOUNT_H_
#define TENSORBROKER_TESTS_STORAGE_MOUNT_H_

#include <sys/mount.h>

#include <string>

#include "tests/ipc/scratch.h"

namespace tensorbroker::testing {

// Unmounts at its end. `ok()` is false where this user may not mount: the test skips visibly then.
class ScratchMount {
 public:
  explicit ScratchMount(const std::string& options, const std::string& type = "tmpfs")
      : mounted_(mount(type.c_str(), scratch_.path().c_str(), type.c_str(), MS_NOSUID | MS_NODEV,
                       options.c_str()) == 0) {}
  ScratchMount(const ScratchMount&) = delete;
  ScratchMount& operator=(const ScratchMount&) = delete;
  ~ScratchMount() {
    if (mounted_) umount2(scratch_.path().c_str(), MNT_DETACH);
  }

  bool ok() const { return mounted_; }
  const std::string& path() const { return scratch_.path(); }
  std::string operator/(const std::string& name) const { return scratch_ / name; }

 private:
  ScratchDirectory scratch_{"/tmp"};
  bool mounted_;
};

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_STORAGE_MOUNT_H_
