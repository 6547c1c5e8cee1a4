#include "tensorbroker/cli/list.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace tensorbroker::cli {

bool Matches(const StorageRecord& storage, const ListFilter& filter) {
  if (storage.size_bytes < filter.min_bytes) return false;
  if (!filter.state.empty() && Name(storage.state) != filter.state) return false;
  if (filter.holder_pid != 0 &&
      std::none_of(storage.holders.begin(), storage.holders.end(),
                   [&](const Holder& holder) { return holder.pid == filter.holder_pid; })) {
    return false;
  }
  if (filter.dtype.empty()) return true;
  const auto is_asked = [&](const Header& header) { return Name(header.dtype()) == filter.dtype; };
  if (storage.names.empty()) return storage.header && is_asked(*storage.header);
  return std::any_of(storage.names.begin(), storage.names.end(),
                     [&](const NameBinding& binding) { return is_asked(binding.header); });
}

std::vector<ListRow> Rows(const std::vector<StorageRecord>& storages, const std::string& prefix,
                          ListOrder order, bool reverse) {
  std::vector<ListRow> rows;
  for (const StorageRecord& storage : storages) {
    for (const NameBinding& binding : storage.names) {
      if (binding.name.starts_with(prefix)) rows.push_back({&storage, &binding});
    }
    if (storage.names.empty() && prefix.empty()) rows.push_back({&storage, nullptr});
  }
  const auto by_name = [](const ListRow& row) {
    return std::make_tuple(row.binding == nullptr,
                           row.binding == nullptr ? std::string_view() : row.binding->name, row.storage->id);
  };
  const auto bytes = [](const ListRow& row) {
    return row.binding != nullptr ? row.binding->header.nbytes() : row.storage->size_bytes;
  };
  std::sort(rows.begin(), rows.end(), [&](const ListRow& a, const ListRow& b) {
    switch (order) {
      case ListOrder::kName:
        break;
      case ListOrder::kBytes:
        if (bytes(a) != bytes(b)) return bytes(a) > bytes(b);
        break;
      case ListOrder::kAge:
        if (a.since_unix_ns() != b.since_unix_ns()) return a.since_unix_ns() > b.since_unix_ns();
        break;
      case ListOrder::kHolders:
        if (a.storage->holder_count != b.storage->holder_count)
          return a.storage->holder_count > b.storage->holder_count;
        break;
      case ListOrder::kId:
        if (a.storage->id != b.storage->id) return a.storage->id < b.storage->id;
        break;
    }
    return by_name(a) < by_name(b);
  });
  if (reverse) std::reverse(rows.begin(), rows.end());
  return rows;
}

std::string StateText(const StorageRecord& storage) {
  if (storage.state != StorageState::kInFlight || storage.in_flight_from_pids.empty()) {
    return std::string(Name(storage.state));
  }
  return fmt::format("in flight from pid {}", fmt::join(storage.in_flight_from_pids, ", "));
}

}  // namespace tensorbroker::cli
