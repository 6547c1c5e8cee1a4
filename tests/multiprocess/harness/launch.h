// What stands between posix_spawn and a program that a case wants under another uid, umask, cgroup or namespace:
// this binary starts itself as TB_CHILD(Launch), changes what was asked for, and executes the program.
#ifndef TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_LAUNCH_H_
#define TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_LAUNCH_H_

#include <string>
#include <vector>

#include "tests/multiprocess/harness/process.h"

namespace tensorbroker::testing {

// `options` as the words before the program's own on the launcher's command line; empty where no launcher is
// needed.
std::vector<std::string> LaunchWords(const LaunchOptions& options);

}  // namespace tensorbroker::testing

#endif  // TENSORBROKER_TESTS_MULTIPROCESS_HARNESS_LAUNCH_H_
