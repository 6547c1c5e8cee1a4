// tensorctl ls
#include <fmt/format.h>

#include <limits>
#include <memory>

#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/list.h"
#include "tensorbroker/cli/table.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/tensor/dtype.h"

namespace tensorbroker::cli {
namespace {

struct ListArguments {
  std::string prefix;
  ListFilter filter;
  std::string sort = "name";
  bool reverse = false;
};

const std::vector<std::string>& SortKeys() {
  static const std::vector<std::string> kKeys = {"name", "bytes", "age", "holders", "id"};  // as ListOrder
  return kKeys;
}

std::vector<std::string> DTypeNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumDTypes; ++i) names.emplace_back(Name(static_cast<DType>(i)));
  return names;
}

ListOrder OrderOf(const std::string& key) {
  for (size_t i = 0; i < SortKeys().size(); ++i) {
    if (SortKeys()[i] == key) return static_cast<ListOrder>(i);
  }
  return ListOrder::kName;
}

// "1.2 KiB", or "1.2 KiB of 3.8 MiB" where a view shows less than its Storage has.
std::string BytesText(const ListRow& row, const Context& context) {
  const int64_t whole = row.storage->size_bytes;
  const int64_t own = row.header() == nullptr ? whole : row.header()->nbytes();
  if (own == whole) return context.Bytes(own);
  return fmt::format("{} of {}", context.Bytes(own), context.Bytes(whole));
}

std::string HoldersText(const StorageRecord& storage) {
  if (storage.other_uids_holders == 0) return fmt::format("{}", storage.holder_count);
  return fmt::format("{}+{}", storage.holder_count, storage.other_uids_holders);
}

StatusOr<int> List(Context& context, const ListArguments& arguments) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  std::vector<StorageRecord> storages;
  int64_t total_bytes = 0;
  const ListOptions options{.prefix = arguments.prefix,
                            .holders = context.json() || arguments.filter.holder_pid != 0};
  TB_RETURN_IF_ERROR(client.inspector().List(options, [&](StorageRecord storage) {
    if (!Matches(storage, arguments.filter)) return;
    total_bytes += storage.size_bytes;
    storages.push_back(std::move(storage));
  }));
  const std::vector<ListRow> rows =
      Rows(storages, arguments.prefix, OrderOf(arguments.sort), arguments.reverse);
  if (context.json()) {
    std::vector<StorageRecord> ordered;  // each once, where its first row stands
    std::vector<bool> seen(storages.size(), false);
    for (const ListRow& row : rows) {
      const auto at = static_cast<size_t>(row.storage - storages.data());
      if (!seen[at]) ordered.push_back(*row.storage);
      seen[at] = true;
    }
    Print(ListJson(ordered, total_bytes));
    return 0;
  }
  Table table({{"NAME", Align::kLeft, true},
               {"DTYPE"},
               {"SHAPE"},
               {"BYTES", Align::kRight},
               {"DEVICE"},
               {"HOLDERS", Align::kRight},
               {"AGE", Align::kRight},
               {"STATE"}});
  size_t names = 0;
  for (const ListRow& row : rows) {
    const Header* header = row.header();
    names += row.binding == nullptr ? 0 : 1;
    table.Add({row.binding != nullptr ? Cell(Printable(row.binding->name))
                                      : Cell(ToString(row.storage->id), Style::kDim),
               header == nullptr ? "bytes" : std::string(Name(header->dtype())),
               header == nullptr ? "-" : ToString(header->shape()),
               BytesText(row, context),
               ToString(row.storage->device),
               HoldersText(*row.storage),
               Age(row.since_unix_ns()),
               {StateText(*row.storage),
                row.storage->state == StorageState::kNamed ? Style::kPlain : Style::kYellow}});
  }
  Print(table.Render(context.console()));
  Print(context.console().Paint(
            Style::kDim,
            fmt::format("{} name{}, {} Storage{}, {}", names, names == 1 ? "" : "s", storages.size(),
                        storages.size() == 1 ? "" : "s", context.Bytes(total_bytes))) +
        "\n");
  return 0;
}

}  // namespace

void AddListCommand(CommandLine& line) {
  const auto arguments = std::make_shared<ListArguments>();
  line.Add("ls", "List names and Storages: dtype, shape, bytes, device, holders, age, state")
      .Describe(
          "One line a name, and one (its id) for a Storage without a name. BYTES reads \"4.0 KiB of 3.8 "
          "MiB\" where a "
          "view shows less than the Storage that it keeps. HOLDERS counts processes; \"2+1\": two of this "
          "user, one of "
          "others. The last line counts each Storage once.")
      .Argument("PREFIX", &arguments->prefix, "only names that begin so", Completes::kTensor, Need::kOptional)
      .Choice("--sort", &arguments->sort, "KEY", SortKeys(),
              "order of the lines: bytes and holders most first, age youngest first")
      .Flag("-r,--reverse", &arguments->reverse, "the other way round")
      .Bytes("--min-bytes", &arguments->filter.min_bytes,
             "only Storages of at least this size: 4096, 64KiB, 1.5GiB")
      .Number("--holder", &arguments->filter.holder_pid, "PID", "only what this process holds",
              std::numeric_limits<int32_t>::max())
      .Choice("--state", &arguments->filter.state, "STATE",
              {"held", "named", "in-flight", "deleted", "quarantined"}, "only Storages in this state")
      .Choice("--dtype", &arguments->filter.dtype, "DTYPE", DTypeNames(), "only this element type")
      .Example("tensorctl ls train/ --sort bytes", "What train/ holds, the largest first")
      .Example("tensorctl ls --state held --min-bytes 1GiB", "Large Storages that no name keeps")
      .Run([arguments](Context& context) { return List(context, *arguments); });
}

}  // namespace tensorbroker::cli
