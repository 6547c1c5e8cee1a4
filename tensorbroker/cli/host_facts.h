// Reads from /proc, /sys and /etc what `doctor` judges.
#ifndef TENSORBROKER_CLI_HOST_FACTS_H_
#define TENSORBROKER_CLI_HOST_FACTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/cli/doctor.h"

namespace tensorbroker::cli {

// What dead brokers of `uid` left in the tmpfs `directory`: those whose lock nobody holds.
std::vector<Leftover> FindLeftovers(const std::string& directory, uint32_t uid);

// Of this machine, and of the broker's process where `broker_pid` is not 0. Whatever cannot be read stays empty.
HostFacts GatherHostFacts(int32_t broker_pid, uint32_t broker_uid);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_HOST_FACTS_H_
