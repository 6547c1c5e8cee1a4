# The packages tensorbroker stands on, all from Debian 12 by name (scripts/setup.sh installs them).
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(Protobuf REQUIRED)  # Debian ships no config file for it: module mode
find_package(gRPC CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(spdlog CONFIG REQUIRED)
find_package(Boost 1.74 REQUIRED)  # headers only: Interprocess
find_package(CLI11 CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
if(TENSORBROKER_TESTS)
  find_package(GTest CONFIG REQUIRED)
  include(GoogleTest)
endif()
