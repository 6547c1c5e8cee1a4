// tensorctl stat, tensorctl who
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>

#include "tensorbroker/base/units.h"
#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/list.h"
#include "tensorbroker/cli/table.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {
namespace {

std::string HeaderText(const Header& header, const Context& context) {
  return fmt::format("{} {}, strides {}, offset {} B, {}{}, {} elements, {}", Name(header.dtype()),
                     ToString(header.shape()), ToString(header.strides()), header.offset_bytes(),
                     header.is_contiguous() ? "contiguous" : "not contiguous",
                     header.requires_grad() ? ", requires_grad" : "", header.numel(),
                     context.Bytes(header.nbytes()));
}

std::string BindingText(const NameBinding& binding, const Context& context) {
  std::string text = context.console().Paint(Style::kBold, Printable(binding.name)) +
                     fmt::format("  version {}, published {} ago by pid {}{}\n", binding.version,
                                 Age(binding.published_unix_ns), binding.publisher_pid,
                                 binding.publisher_alive ? "" : " (gone)");
  text += "  " + HeaderText(binding.header, context) + "\n";
  if (!binding.persistent) text += "  goes with its publisher's session\n";
  if (binding.expires_unix_ns != 0) {
    const int64_t left_ns = std::max<int64_t>(0, binding.expires_unix_ns - Clock::Real().UnixNanos());
    text += fmt::format("  expires in {}\n", HumanDuration(Duration(left_ns)));
  }
  return text;
}

std::string StatText(const StorageRecord& storage, const Context& context) {
  const Console& console = context.console();
  std::string text;
  for (const NameBinding& binding : storage.names) text += BindingText(binding, context);
  const auto add = [&](std::string_view key, const std::string& value) {
    text += console.Paint(Style::kDim, fmt::format("{:<9}", key)) + "  " + value + "\n";
  };
  add("storage", ToString(storage.id));
  add("size", fmt::format("{} ({} of the capacity in whole pages)", context.Bytes(storage.size_bytes),
                          context.Bytes(storage.reserved_bytes)));
  add("device", ToString(storage.device));
  add("state", StateText(storage));
  if (storage.names.empty() && storage.header) add("made as", HeaderText(*storage.header, context));
  add("created", fmt::format("{} ago by pid {}, owner uid {}", Age(storage.created_unix_ns),
                             storage.creator_pid, storage.owner_uid));
  add("segment", storage.segment
                     ? fmt::format("{}, {}, {}", ToString(storage.segment), Printable(storage.segment_kind),
                                   storage.huge_pages ? "huge pages" : "small pages")
                     : "none: no bytes");
  add("NUMA node",
      storage.numa_nodes.empty() ? "not known" : fmt::format("{}", fmt::join(storage.numa_nodes, ", ")));
  if (!storage.in_flight_from_pids.empty()) {
    add("in flight", fmt::format("from pid {}", fmt::join(storage.in_flight_from_pids, ", ")));
  }
  add("holders", fmt::format("{}{}", storage.holder_count,
                             storage.other_uids_holders == 0
                                 ? ""
                                 : fmt::format(", and {} of other users", storage.other_uids_holders)));
  if (storage.holders.empty()) return text;
  Table table({{"PID", Align::kRight},
               {"UID", Align::kRight},
               {"ACCESS"},
               {"AGE", Align::kRight},
               {"LABEL", Align::kLeft, true},
               {"COMMAND", Align::kLeft, true}});
  for (const Holder& holder : storage.holders) {
    table.Add({fmt::format("{}", holder.pid), fmt::format("{}", holder.uid),
               holder.quarantined                         ? Cell("quarantined", Style::kYellow)
               : holder.access == GrantAccess::kReadWrite ? Cell("read-write")
                                                          : Cell("read-only"),
               Age(holder.since_unix_ns), Printable(holder.label), Printable(holder.command)});
  }
  return text + "\n" + table.Render(console);
}

StatusOr<int> Stat(Context& context, const std::string& subject) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  TB_ASSIGN_OR_RETURN(const StorageRecord storage, StatSubject(client.inspector(), subject));
  Print(context.json() ? StatJson(storage) : StatText(storage, context));
  return 0;
}

struct WhoArguments {
  std::string subject;
  bool storages = false;
};

StatusOr<int> Who(Context& context, const WhoArguments& arguments) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  const Inspector inspector = client.inspector();
  std::optional<StorageId> asked;
  if (!arguments.subject.empty()) {
    TB_ASSIGN_OR_RETURN(const StorageRecord storage, StatSubject(inspector, arguments.subject));
    asked = storage.id;
  }
  TB_ASSIGN_OR_RETURN(std::vector<SessionRecord> sessions, inspector.Sessions(/*held=*/true));
  std::erase_if(sessions, [&](const SessionRecord& session) {
    if (session.id == client.session_id()) return true;  // the one that asks
    return asked && std::find(session.held.begin(), session.held.end(), *asked) == session.held.end();
  });
  std::sort(sessions.begin(), sessions.end(), [](const SessionRecord& a, const SessionRecord& b) {
    return std::tie(b.bytes, a.pid, a.id) < std::tie(a.bytes, b.pid, b.id);
  });
  if (context.json()) {
    Print(WhoJson(sessions));
    return 0;
  }
  Table table({{"PID", Align::kRight},
               {"UID", Align::kRight},
               {"STORAGES", Align::kRight},
               {"BYTES", Align::kRight},
               {"AGE", Align::kRight},
               {"LABEL", Align::kLeft, true},
               {"COMMAND", Align::kLeft, true}});
  const auto add = [&](const SessionRecord& session) {
    table.Add({fmt::format("{}", session.pid),
               fmt::format("{}", session.uid),
               fmt::format("{}", session.storages),
               context.Bytes(session.bytes),
               Age(session.since_unix_ns),
               Printable(session.label),
               {session.quarantined ? "(dead; a forked child lives) " + Printable(session.command)
                                    : Printable(session.command),
                session.quarantined ? Style::kYellow : Style::kPlain}});
  };
  for (const SessionRecord& session : sessions) add(session);
  Print(table.Render(context.console()));
  if (!arguments.storages) return 0;
  std::map<StorageId, StorageRecord> storages;
  TB_RETURN_IF_ERROR(
      inspector.List({}, [&](StorageRecord storage) { storages.emplace(storage.id, std::move(storage)); }));
  for (const SessionRecord& session : sessions) {
    Print(fmt::format("\npid {} {}\n", session.pid, Printable(session.label)));
    for (const StorageId& id : session.held) {
      const auto found = storages.find(id);
      if (found == storages.end()) continue;  // freed in between
      std::string names;
      for (const NameBinding& binding : found->second.names) names += "  " + Printable(binding.name);
      Print(fmt::format("  {}  {}{}\n", ToString(id), context.Bytes(found->second.size_bytes), names));
    }
  }
  return 0;
}

}  // namespace

void AddStatCommands(CommandLine& line) {
  const auto subject = std::make_shared<std::string>();
  line.Add("stat", "Show all of one tensor: header, Storage, Segment, NUMA node, each holder")
      .Describe("An argument in an id's form (9f3a61c204d7be15-42) is an id, all else a name.")
      .Argument("NAME|ID", subject.get(), "a name, or a Storage's id as ls shows it", Completes::kTensor)
      .Example("tensorctl stat train/batch/0", "Who holds this batch, and how it lies in memory")
      .Example("tensorctl stat 9f3a61c204d7be15-42 --json",
               "The same of a Storage without a name, for a script")
      .Run([subject](Context& context) { return Stat(context, *subject); });
  const auto who = std::make_shared<WhoArguments>();
  line.Add("who", "List the processes that have a session: what each holds")
      .Describe(
          "BYTES counts each Storage that a process holds whole; one that two processes hold counts for "
          "both. The session "
          "of this command itself is left out.")
      .Argument("NAME|ID", &who->subject, "only processes that hold this", Completes::kTensor,
                Need::kOptional)
      .Flag("--storages", &who->storages, "also list each process's Storages")
      .Example("tensorctl who", "Who holds memory, the most first")
      .Example("tensorctl who train/batch/0", "Who holds this batch")
      .Run([who](Context& context) { return Who(context, *who); });
}

}  // namespace tensorbroker::cli
