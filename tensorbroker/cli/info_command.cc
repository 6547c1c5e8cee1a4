// tensorctl info
#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/units.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/table.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {
namespace {

constexpr double kNear = 0.8;  // of a limit: worth a colour

std::string Summary(const BrokerInfo& info, const std::string& socket, const Context& context) {
  const Console& console = context.console();
  std::string text = console.Paint(Style::kBold, "tensorbrokerd " + Printable(info.version)) +
                     fmt::format(", pid {}, uid {}, up {}\n", info.pid, info.uid, Age(info.started_unix_ns));
  const auto add = [&](std::string_view key, const std::string& value) {
    text += console.Paint(Style::kDim, fmt::format("{:<12}", key)) + "  " + value + "\n";
  };
  add("socket", Printable(socket));
  add("instance", Printable(info.instance));
  add("capacity",
      fmt::format("{}, bound by {}", context.Bytes(info.capacity_bytes), Printable(info.capacity_bound_by)));
  add("used", fmt::format("{} ({}): {} Storages, {} names, {} sessions", context.Bytes(info.used_bytes),
                          HumanPercent(info.used_bytes, info.capacity_bytes), info.storages, info.names,
                          info.sessions));
  add("quarantined", context.Bytes(info.quarantined_bytes));
  std::string memory = Printable(info.memory);
  if (info.filesystem_size_bytes > 0) {
    memory += fmt::format(", {} of {} free in its file system", context.Bytes(info.filesystem_free_bytes),
                          context.Bytes(info.filesystem_size_bytes));
  }
  add("memory", memory);
  add("huge pages", Printable(info.huge_pages));
  if (info.gpus.empty())
    add("GPUs", "none" + (info.gpu_note.empty() ? "" : " (" + Printable(info.gpu_note) + ")"));
  for (const Gpu& gpu : info.gpus) {
    add("GPU",
        fmt::format("{}, {}, {}", Printable(gpu.name), context.Bytes(gpu.memory_bytes), Printable(gpu.uuid)));
  }
  return text;
}

std::string Limits(const BrokerInfo& info, const Console& console) {
  Table table({{"LIMIT"}, {"VALUE", Align::kRight}, {"USED", Align::kRight}, {"NOTE", Align::kLeft, true}});
  for (const Limit& limit : info.limits) {
    const bool near =
        limit.used >= 0 && static_cast<double>(limit.used) >= kNear * static_cast<double>(limit.value);
    const Style style = near ? Style::kRed : limit.note.empty() ? Style::kPlain : Style::kYellow;
    table.Add({{Printable(limit.name), style},
               fmt::format("{}", limit.value),
               limit.used < 0 ? "-" : fmt::format("{}", limit.used),
               Printable(limit.note)});
  }
  return table.size() == 0 ? "" : "\n" + table.Render(console);
}

std::string Features(const BrokerInfo& info, const Console& console) {
  Table table({{"KERNEL FEATURE"}, {"HERE"}, {"NOTE", Align::kLeft, true}});
  for (const Feature& feature : info.features) {
    table.Add({Printable(feature.name),
               feature.present ? Cell("yes", Style::kGreen) : Cell("no", Style::kYellow),
               Printable(feature.note)});
  }
  return table.size() == 0 ? "" : "\n" + table.Render(console);
}

StatusOr<int> Info(Context& context) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  TB_ASSIGN_OR_RETURN(const BrokerInfo info, client.inspector().Info());
  if (context.json()) {
    Print(InfoJson(info, client.socket()));
    return 0;
  }
  Print(Summary(info, client.socket(), context) + Limits(info, context.console()) +
        Features(info, context.console()));
  for (const std::string& warning : info.warnings) {
    Print("\n" + context.console().Paint(Style::kYellow, "warning: ") + Printable(warning) + "\n");
  }
  return 0;
}

}  // namespace

void AddInfoCommand(CommandLine& line) {
  line.Add("info", "Show the broker: version, capacity, use, limits, kernel features, GPUs")
      .Describe(
          "The capacity is followed by what binds it. A limit that is nearly used, or that will bite, is "
          "coloured on a "
          "terminal and has a note.")
      .Example("tensorctl info", "All about the broker that this user reaches")
      .Example("tensorctl info --json | jq .used_bytes", "One value for a script")
      .Run(Info);
}

}  // namespace tensorbroker::cli
