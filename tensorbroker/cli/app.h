// tensorctl, from its arguments to its exit code.
#ifndef TENSORBROKER_CLI_APP_H_
#define TENSORBROKER_CLI_APP_H_

#include <memory>
#include <string>
#include <vector>

#include "tensorbroker/cli/command_line.h"
#include "tensorbroker/cli/context.h"

namespace tensorbroker::cli {

inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr const char* kUsageCode = "USAGE";  // in place of a status code

// The whole command line. `options`, which must outlive it, gets the options of all commands.
std::unique_ptr<CommandLine> MakeCommandLine(GlobalOptions* options);

// Runs one command; gives the exit code: 0, 1 failed, 2 wrong usage, or what `run`'s command gave.
// `args` without the program's name.
int RunTensorctl(const std::vector<std::string>& args);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_APP_H_
