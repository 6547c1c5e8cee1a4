// What the build and the shells' completions ask: no help lists these.
#include <fmt/format.h>

#include <fstream>
#include <iterator>
#include <memory>

#include "tensorbroker/base/version.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {
namespace {

// Names that begin with `prefix`, one a line. A shell that completes must not wait, nor see an error.
StatusOr<int> Names(Context& context, const std::string& prefix) {
  const StatusOr<Client> client = Client::Connect({.socket = context.options().socket,
                                                   .label = "tensorctl completion",
                                                   .deadline = std::chrono::seconds(1)});
  if (!client.ok()) return 0;
  std::string text;
  const Status listed = client->inspector().List({.prefix = prefix}, [&](const StorageRecord& storage) {
    for (const NameBinding& binding : storage.names) {
      if (binding.name.starts_with(prefix)) text += binding.name + "\n";
    }
  });
  if (listed.ok()) Print(text);
  return 0;
}

StatusOr<int> Complete(const CommandLine& line, const std::string& shell) {
  const ProgramModel model = line.Model();
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    return InvalidArgumentError("no completion for this shell: bash, zsh or fish");
  }
  Print(shell == "bash"  ? BashCompletion(model)
        : shell == "zsh" ? ZshCompletion(model)
                         : FishCompletion(model));
  return 0;
}

StatusOr<int> Man(const CommandLine& line, const std::string& help_file) {
  if (help_file.empty()) {
    Print(ManPage(line.Model()));
    return 0;
  }
  std::ifstream file(help_file);
  if (!file) return NotFoundError(fmt::format("{} cannot be read", help_file));
  const std::string help(std::istreambuf_iterator<char>(file), {});
  Print(ManPageFromHelp("tensorbrokerd", 8, help, line.Model().version));
  return 0;
}

}  // namespace

void AddHiddenCommands(CommandLine& line) {
  const auto prefix = std::make_shared<std::string>();
  line.Add("__names", "Names that begin with PREFIX", /*hidden=*/true)
      .Argument("PREFIX", prefix.get(), "of names", Completes::kNothing, Need::kOptional)
      .Run([prefix](Context& context) { return Names(context, *prefix); });
  const auto shell = std::make_shared<std::string>();
  line.Add("__complete", "The completion script of a shell", /*hidden=*/true)
      .Argument("SHELL", shell.get(), "bash, zsh or fish")
      .Run([shell, &line](Context&) { return Complete(line, *shell); });
  const auto help_file = std::make_shared<std::string>();
  line.Add("__man", "tensorctl.1, or tensorbrokerd.8 from a file that holds its --help", /*hidden=*/true)
      .Argument("HELP_FILE", help_file.get(), "tensorbrokerd's --help", Completes::kNothing, Need::kOptional)
      .Run([help_file, &line](Context&) { return Man(line, *help_file); });
}

}  // namespace tensorbroker::cli
