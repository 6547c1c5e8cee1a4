// tensorctl watch
#include <fmt/format.h>
#include <time.h>

#include <memory>

#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {
namespace {

struct WatchArguments {
  std::string prefix;
  int64_t count = 0;
};

// "14:03:07.512", in this machine's time zone.
std::string TimeOfDay(int64_t unix_ns) {
  const time_t seconds = unix_ns / 1000000000;
  tm local{};
  localtime_r(&seconds, &local);
  return fmt::format("{:02}:{:02}:{:02}.{:03}", local.tm_hour, local.tm_min, local.tm_sec,
                     unix_ns / 1000000 % 1000);
}

std::string EventText(const Event& event, const Context& context) {
  static constexpr Style kStyles[] = {Style::kPlain, Style::kGreen, Style::kGreen, Style::kYellow,
                                      Style::kCyan,  Style::kPlain, Style::kPlain, Style::kYellow,
                                      Style::kCyan,  Style::kCyan,  Style::kRed};
  const Style style = kStyles[static_cast<size_t>(event.kind) % std::size(kStyles)];
  std::string text = context.console().Paint(Style::kDim, TimeOfDay(event.unix_ns)) + "  " +
                     context.console().Paint(style, fmt::format("{:<14}", Name(event.kind)));
  if (event.kind == EventKind::kLagged)
    return text + fmt::format("  {} events are missing here\n", event.lost);
  if (!event.name.empty()) text += "  " + Printable(event.name);
  if (!event.new_name.empty()) text += " -> " + Printable(event.new_name);
  if (event.version != 0) text += fmt::format(" version {}", event.version);
  if (event.storage)
    text += fmt::format("  {}  {}", ToString(event.storage), context.Bytes(event.size_bytes));
  if (event.pid != 0) text += fmt::format("  pid {}", event.pid);
  if (!event.label.empty()) text += fmt::format(" ({})", Printable(event.label));
  return text + "\n";
}

StatusOr<int> Watch(Context& context, const WatchArguments& arguments) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  const Duration timeout = context.options().timeout_given ? context.options().timeout : kForever;
  Status written;
  const auto on_ready = [&] {
    if (context.json()) {
      Print(WatchReadyJson(arguments.prefix));
      written = FlushStdout();
    } else {
      PrintError(fmt::format(
          "watching {} (Ctrl-C ends)\n",
          arguments.prefix.empty() ? "all events" : "names that begin with " + Printable(arguments.prefix)));
    }
  };
  int64_t seen = 0;
  TB_RETURN_IF_ERROR(client.inspector().Watch(arguments.prefix, timeout, on_ready, [&](const Event& event) {
    Print(context.json() ? EventJson(event) : EventText(event, context));
    written = FlushStdout();  // whoever reads the pipe sees each event as it happens
    return written.ok() && ++seen != arguments.count;
  }));
  TB_RETURN_IF_ERROR(written);
  return 0;
}

}  // namespace

void AddWatchCommand(CommandLine& line) {
  const auto arguments = std::make_shared<WatchArguments>();
  line.Add("watch", "Print events as they happen: created, published, attached, released, freed, ...")
      .Describe(
          "Ends with Ctrl-C, after --count events, after --timeout, or with exit code 1 when the broker "
          "ends. With --json "
          "each event is one line; the first line is {\"event\":\"ready\"}: no event after it is missed.")
      .Argument("PREFIX", &arguments->prefix, "only events of names that begin so", Completes::kTensor,
                Need::kOptional)
      .Number("--count", &arguments->count, "N", "end after N events")
      .Example("tensorctl watch train/", "What happens to train/'s names")
      .Example("tensorctl watch --json | jq -r .event", "Every event, for a script")
      .Run([arguments](Context& context) { return Watch(context, *arguments); });
}

}  // namespace tensorbroker::cli
