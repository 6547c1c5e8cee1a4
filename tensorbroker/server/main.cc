// tensorbrokerd: the broker's program.
#include <iostream>

#include "tensorbroker/base/status.h"
#include "tensorbroker/server/daemon.h"
#include "tensorbroker/server/daemon_options.h"

int main(int argc, char** argv) {
  int exit_code = 0;
  const auto options = tensorbroker::ParseDaemonOptions(argc, argv, &exit_code);
  if (!options) return exit_code;
  const tensorbroker::Status status = tensorbroker::RunDaemon(*options);
  if (status.ok()) return 0;
  std::cerr << "tensorbrokerd: " << tensorbroker::Message(status) << "\n";
  return 1;
}
