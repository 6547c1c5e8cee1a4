// A parent makes a million floats in shared memory; four spawned processes each add up their quarter where it lies, and
// publish their part. Started with arguments this program is one of the four; without, it is the parent.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "examples/common/children.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::examples {
namespace {

constexpr int64_t kNumbers = 1'000'000;
constexpr int kProcesses = 4;
constexpr int64_t kQuarter = kNumbers / kProcesses;
constexpr char kNumbersName[] = "shared_sum/numbers";

std::string PartName(int process) { return "shared_sum/part" + std::to_string(process); }

// What a child does. The name's bytes are mapped, its quarter is a view of them; nothing is copied.
Status AddQuarter(int process) {
  TB_ASSIGN_OR_RETURN(Client client, Client::Connect({.label = "adder " + std::to_string(process)}));
  TB_ASSIGN_OR_RETURN(const Tensor numbers, client.Open(kNumbersName));
  TB_ASSIGN_OR_RETURN(const Tensor quarter, numbers.Narrow(0, process * kQuarter, kQuarter));
  double sum = 0;
  for (int64_t i = 0; i < kQuarter; ++i) sum += quarter.data<const float>()[i];
  // The part outlives this process: its name keeps it.
  TB_ASSIGN_OR_RETURN(const Tensor part, client.Empty({3}, DType::kFloat64));
  part.data<double>()[0] = sum;
  part.data<double>()[1] = static_cast<double>(getpid());
  part.data<double>()[2] = static_cast<double>(client.wire_bytes());
  return part.Publish(PartName(process));
}

Status AddUp() {
  TB_ASSIGN_OR_RETURN(Client client, Client::Embedded({.label = "shared_sum"}));
  TB_ASSIGN_OR_RETURN(const Tensor numbers, client.Arange(0, kNumbers, 1, DType::kFloat32));
  TB_RETURN_IF_ERROR(numbers.Publish(kNumbersName));
  std::printf("%ld floats, %ld bytes, one Storage\n", numbers.numel(), numbers.nbytes());

  Children children;  // they find the private broker by the environment
  for (int process = 0; process < kProcesses; ++process) {
    TB_RETURN_IF_ERROR(
        children.Spawn("adder " + std::to_string(process), {"--adder", std::to_string(process)}));
  }
  TB_RETURN_IF_ERROR(children.Wait());

  double total = 0;
  int64_t wire_bytes = client.wire_bytes();
  for (int process = 0; process < kProcesses; ++process) {
    TB_ASSIGN_OR_RETURN(const Tensor part, client.Open(PartName(process)));
    const double* values = part.data<const double>();
    std::printf("process %d (pid %.0f): elements %ld to %ld add up to %.0f\n", process, values[1],
                process * kQuarter, (process + 1) * kQuarter - 1, values[0]);
    total += values[0];
    wire_bytes += static_cast<int64_t>(values[2]);
  }
  const double expected = 0.5 * static_cast<double>(kNumbers) * static_cast<double>(kNumbers - 1);
  std::printf("total: %.0f, %s\n", total, total == expected ? "as it should be" : "WRONG");
  std::printf("bytes of messages that crossed the socket: %ld; bytes that five processes used: %ld\n",
              wire_bytes, numbers.nbytes());
  return total == expected ? OkStatus() : DataLossError("the total should be " + std::to_string(expected));
}

}  // namespace
}  // namespace tensorbroker::examples

int main(int argc, char** argv) {
  using namespace tensorbroker::examples;
  const bool child = argc == 5 && std::strcmp(argv[1], "--adder") == 0;  // --adder N --parent PID
  if (!child && argc > 1) {
    std::printf(
        "Usage: shared_sum\nFour processes add up a million floats that they share. Needs no broker: it "
        "starts one.\n");
    return std::strcmp(argv[1], "--help") == 0 ? 0 : 2;
  }
  if (child) EndWithParent(std::atoi(argv[4]));
  const tensorbroker::Status status = child ? AddQuarter(std::atoi(argv[2])) : AddUp();
  if (!status.ok()) std::fprintf(stderr, "shared_sum: %s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
