// tensorctl wait, rename, rm
#include <fmt/format.h>

#include <memory>

#include "tensorbroker/cli/app.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

StatusOr<int> Wait(Context& context, const std::string& name) {
  TB_ASSIGN_OR_RETURN(Client client, context.Connect());
  const Duration timeout = context.options().timeout_given ? context.options().timeout : kForever;
  TB_ASSIGN_OR_RETURN(const Tensor tensor, client.Open(name, {.timeout = timeout, .map = false}));
  if (context.json()) {
    Print(TensorJson(name, tensor.storage().id(), tensor.header()));
  } else {
    Print(fmt::format("{}  {} {}  {}\n", Printable(name), Name(tensor.dtype()), ToString(tensor.shape()),
                      context.Bytes(tensor.nbytes())));
  }
  return 0;
}

struct RenameArguments {
  std::string from;
  std::string to;
  bool replace = false;
};

StatusOr<int> Rename(Context& context, const RenameArguments& arguments) {
  TB_ASSIGN_OR_RETURN(Client client, context.Connect());
  TB_RETURN_IF_ERROR(client.Rename(arguments.from, arguments.to, arguments.replace));
  Print(context.json()
            ? RenameJson(arguments.from, arguments.to)
            : fmt::format("renamed {} to {}\n", Printable(arguments.from), Printable(arguments.to)));
  return 0;
}

// A name is unbound; a Storage is deleted with all its names. An id-shaped text that is no live id is taken as a name.
StatusOr<Removed> RemoveOne(Client& client, const std::string& text) {
  const Subject subject = ParseSubject(text);
  if (const auto* id = std::get_if<StorageId>(&subject)) {
    const StatusOr<int64_t> holders = client.Delete(*id);
    if (holders.ok()) return Removed{text, true, *holders};
    if (holders.status().code() != StatusCode::kNotFound || !client.Unpublish(text).ok())
      return holders.status();
    return Removed{text};
  }
  TB_RETURN_IF_ERROR(client.Unpublish(text));
  return Removed{text};
}

// Tries each: what is named after one that fails goes all the same.
StatusOr<int> Remove(Context& context, const std::vector<std::string>& subjects) {
  TB_ASSIGN_OR_RETURN(Client client, context.Connect());
  std::vector<Removed> removed;
  std::vector<NotRemoved> failed;
  for (const std::string& subject : subjects) {
    const StatusOr<Removed> one = RemoveOne(client, subject);
    if (!one.ok()) {
      failed.push_back({subject, one.status()});
      PrintFailure("rm", CodeName(one.status().code()), Message(one.status()));
      continue;
    }
    removed.push_back(*one);
    if (context.json()) continue;
    if (one->is_id && one->holders > 0) {
      Print(fmt::format("deleted {}; its bytes go when the last of {} holder{} lets go\n", Printable(subject),
                        one->holders, one->holders == 1 ? "" : "s"));
    } else {
      Print(fmt::format("{} {}\n", one->is_id ? "deleted" : "removed", Printable(subject)));
    }
  }
  if (context.json()) Print(RemoveJson(removed, failed));
  return failed.empty() ? 0 : kExitFailed;
}

}  // namespace

void AddNameCommands(CommandLine& line) {
  const auto name = std::make_shared<std::string>();
  line.Add("wait", "Wait until a name is published, then print what it is")
      .Describe(
          "Waits for ever, unless --timeout is given; then the exit code is 1 where the name did not come.")
      .Argument("NAME", name.get(), "the name to wait for", Completes::kTensor)
      .Example("tensorctl wait train/batch/0 --timeout 30s && ./consume",
               "Start a program once its input is there")
      .Run([name](Context& context) { return Wait(context, *name); });
  const auto rename = std::make_shared<RenameArguments>();
  line.Add("rename", "Give a tensor another name, at one instant")
      .Argument("FROM", &rename->from, "the name it has", Completes::kTensor)
      .Argument("TO", &rename->to, "the name it gets")
      .Flag("--replace", &rename->replace, "also where TO is taken")
      .Example("tensorctl rename weights/new weights/live --replace",
               "Put new weights in place of the old ones")
      .Run([rename](Context& context) { return Rename(context, *rename); });
  const auto subjects = std::make_shared<std::vector<std::string>>();
  line.Add("rm", "Remove names, or delete Storages by id")
      .Describe(
          "A name stops to keep its Storage; an id deletes the Storage: its names go, and nobody can attach "
          "it any more. "
          "Whoever holds the bytes reads on; they are freed with the last hold. Each is tried, whatever "
          "became "
          "of the others; the exit code is 1 where one failed.")
      .Arguments("NAME|ID", subjects.get(), "what to remove", Completes::kTensor)
      .Example("tensorctl rm train/batch/0 train/batch/1", "Remove two names")
      .Example("tensorctl rm 9f3a61c204d7be15-42", "Delete a Storage with all its names")
      .Run([subjects](Context& context) { return Remove(context, *subjects); });
}

}  // namespace tensorbroker::cli
