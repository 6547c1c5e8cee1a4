#include "tensorbroker/cli/app.h"

int main(int argc, char** argv) {
  return tensorbroker::cli::RunTensorctl(std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
