#include "tensorbroker/cli/app.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/version.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

constexpr const char* kName = "tensorctl";

// One line on stderr; with --json an object on stdout as well.
int Fail(bool json, int exit_code, const std::string& command, std::string_view code,
         std::string_view message) {
  PrintFailure(command, code, message);
  if (json) {
    Print(ErrorJson(code, message));
    static_cast<void>(FlushStdout());
  }
  return exit_code;
}

std::string HelpText(const CommandLine& line, const std::string& command, const Console& console) {
  const ProgramModel model = line.Model();
  const int columns = console.width > 0 ? std::min(console.width, 100) : 80;
  for (const CommandModel& candidate : model.commands) {
    if (candidate.name == command) return CommandHelp(model, candidate, columns);
  }
  return ProgramHelp(model, columns);
}

}  // namespace

std::unique_ptr<CommandLine> MakeCommandLine(GlobalOptions* options) {
  auto line = std::make_unique<CommandLine>(
      kName, kVersion, "See and steer the tensors that a tensorbroker holds",
      "The broker's socket is --socket, else $TENSORBROKER_SOCKET, else the first that answers of "
      "$XDG_RUNTIME_DIR/tensorbroker/broker.sock, /run/tensorbroker/broker.sock and "
      "/tmp/tensorbroker-UID/broker.sock.\n"
      "Exit code: 0; 1 when it failed, with one line on stderr; 2 for wrong usage.");
  line->global()
      .Text("--socket", &options->socket, "PATH", "The broker's socket", Completes::kFile)
      .Time("--timeout", &options->timeout, "How long a call may take: 250ms, 5s, 10min, forever (30s)",
            &options->timeout_given)
      .Flag("--json", &options->json, "Print JSON, as docs/schema describes it")
      .Flag("--bytes", &options->exact_bytes, "Print sizes as exact numbers of bytes")
      .Choice("--color", &options->color, "WHEN", {"auto", "always", "never"},
              "Colour; auto is on a terminal, where $NO_COLOR is not set");
  AddInfoCommand(*line);
  AddListCommand(*line);
  AddStatCommands(*line);
  AddTransferCommands(*line);
  AddNameCommands(*line);
  AddWatchCommand(*line);
  AddDoctorCommand(*line);
  AddBrokerCommands(*line);
  AddHiddenCommands(*line);
  return line;
}

int RunTensorctl(const std::vector<std::string>& args) {
  GlobalOptions options;
  const auto line = MakeCommandLine(&options);
  const CommandLine::Parsed parsed = line->Parse(args);
  const Console console = Console::Detect(options.color == "always"  ? ColorMode::kAlways
                                          : options.color == "never" ? ColorMode::kNever
                                                                     : ColorMode::kAuto);
  int exit_code = 0;
  switch (parsed.outcome) {
    case CommandLine::Outcome::kHelp:
      Print(HelpText(*line, parsed.command, console));
      break;
    case CommandLine::Outcome::kVersion:
      Print(fmt::format("{} {}\n", kName, kVersion));
      break;
    case CommandLine::Outcome::kUsageError: {
      // Parsing may have ended before it reached --json.
      const auto dashes = std::find(args.begin(), args.end(), "--");
      const bool json = options.json || std::find(args.begin(), dashes, "--json") != dashes;
      const std::string hint = parsed.command.empty() ? fmt::format("{} --help", kName)
                                                      : fmt::format("{} {} --help", kName, parsed.command);
      return Fail(json, kExitUsage, parsed.command, kUsageCode,
                  fmt::format("{} (see {})", parsed.message, hint));
    }
    case CommandLine::Outcome::kRun: {
      Context context(parsed.command, options, console);
      const StatusOr<int> code = line->Run(parsed.command, context);
      if (!code.ok()) {
        return Fail(options.json, kExitFailed, parsed.command, CodeName(code.status().code()),
                    Message(code.status()));
      }
      exit_code = *code;
      break;
    }
  }
  if (const Status written = FlushStdout(); !written.ok()) {
    return Fail(false, kExitFailed, parsed.command, CodeName(written.code()), Message(written));
  }
  return exit_code;
}

}  // namespace tensorbroker::cli
