// tensorctl serve, tensorctl stop, tensorctl run
#include <fmt/format.h>

#include <memory>

#include "tensorbroker/cli/app.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/process.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/daemon_program.h"

namespace tensorbroker::cli {
namespace {

constexpr int kNotExecutable = 126;  // as shells have it
constexpr int kNoSuchCommand = 127;

StatusOr<int> Serve(Context& context, const std::vector<std::string>& arguments) {
  TB_ASSIGN_OR_RETURN(std::string daemon, internal::FindDaemon());
  std::vector<std::string> argv = {std::move(daemon)};
  if (!context.options().socket.empty()) {
    argv.push_back("--socket");
    argv.push_back(context.options().socket);
  }
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  if (!context.json()) return Exec(std::move(argv));
  // Somebody has to say in JSON that it could not be, or how it ended.
  TB_ASSIGN_OR_RETURN(const int code, Job().Run(std::move(argv)));
  if (code == kExitUsage) {
    Print(ErrorJson(kUsageCode, "tensorbrokerd refused its options, and has said why on stderr"));
  } else if (code != 0) {
    Print(ErrorJson(CodeName(StatusCode::kUnavailable),
                    fmt::format("tensorbrokerd ended with exit code {}, and has said why on stderr", code)));
  }
  return code;
}

StatusOr<int> Stop(Context& context) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  TB_ASSIGN_OR_RETURN(const Stopped stopped, StopBroker(client, context.options().timeout));
  if (context.json()) {
    Print(StopJson(stopped.pid, stopped.ended));
  } else {
    Print(fmt::format("tensorbrokerd, pid {}, {}\n", stopped.pid,
                      stopped.ended ? "has ended" : "was asked to end"));
  }
  return 0;
}

struct RunArguments {
  EmbeddedOptions embedded;
  std::vector<std::string> command;
};

StatusOr<int> Run(Context& context, const RunArguments& arguments) {
  Job job;
  EmbeddedOptions options = arguments.embedded;
  options.label = "tensorctl run";
  TB_ASSIGN_OR_RETURN(const Client client, Client::Embedded(options));
  const StatusOr<int> code = job.Run(arguments.command);
  if (code.ok()) return code;
  const bool missing = code.status().code() == StatusCode::kNotFound;
  PrintFailure("run", CodeName(code.status().code()), Message(code.status()));
  if (context.json()) Print(ErrorJson(CodeName(code.status().code()), Message(code.status())));
  return missing ? kNoSuchCommand : kNotExecutable;
}

}  // namespace

void AddBrokerCommands(CommandLine& line) {
  const auto serve = std::make_shared<std::vector<std::string>>();
  line.Add("serve", "Start a broker in the foreground")
      .Describe(
          "Becomes tensorbrokerd ($TENSORBROKER_DAEMON, else beside this program or its library, else in "
          "$PATH) with all "
          "that follows; "
          "`tensorbrokerd --help` lists its options. Options of tensorctl stand before the word serve. Ends "
          "on Ctrl-C, "
          "SIGTERM or `tensorctl stop`. With --json tensorctl stays beside it, and reports an end with "
          "another exit "
          "code than 0.")
      .Rest("ARGUMENT", serve.get(), "options of tensorbrokerd", Verbatim::kAll, Need::kOptional)
      .Example("tensorctl serve --capacity 8GiB --memory memfd", "A broker of 8 GiB for this user")
      .Run([serve](Context& context) { return Serve(context, *serve); });
  line.Add("stop", "End the broker, and wait until its process is gone")
      .Describe(
          "What it holds is freed; processes that have it mapped keep reading. Only for the broker's own "
          "user and root.")
      .Example("tensorctl stop", "End this user's broker")
      .Run(Stop);
  const auto run = std::make_shared<RunArguments>();
  line.Add("run", "Run a command with a broker of its own, which ends with it")
      .Describe(
          "The command finds the broker by $TENSORBROKER_SOCKET. Signals are handed on; the exit code is the "
          "command's, "
          "128 + N where signal N ended it, 127 where there is no such command.")
      .Bytes("--capacity", &run->embedded.capacity_bytes,
             "the broker's capacity (all that the machine's limits allow)")
      .Choice("--memory", &run->embedded.memory, "KIND", {"memfd", "shm", "hugetlbfs"},
              "what Storages are made of; memfd leaves nothing behind, and a small /dev/shm does not bind it")
      .Rest("COMMAND", &run->command, "the command and its arguments", Verbatim::kAfterDashes,
            Need::kRequired)
      .Example("tensorctl run -- python train.py", "A training script with a broker, nothing to set up")
      .Example("tensorctl run --capacity 4GiB -- ./loader --workers 4", "The same with 4 GiB")
      .Run([run](Context& context) { return Run(context, *run); });
}

}  // namespace tensorbroker::cli
