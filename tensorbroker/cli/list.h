// What `ls` shows of Storages: filtering, order and rows. Pure.
#ifndef TENSORBROKER_CLI_LIST_H_
#define TENSORBROKER_CLI_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {

struct ListFilter {
  int64_t min_bytes = 0;   // of the Storage
  int64_t holder_pid = 0;  // 0: any
  std::string state;       // as Name(StorageState); empty: any
  std::string dtype;       // of a name or, without one, of the Storage; empty: any
};

// False where `storage` (with holders, where a pid is asked for) is not asked for.
bool Matches(const StorageRecord& storage, const ListFilter& filter);

enum class ListOrder : uint8_t { kName, kBytes, kAge, kHolders, kId };

// One line of `ls`: a name, or a Storage without one.
struct ListRow {
  const StorageRecord* storage = nullptr;
  const NameBinding* binding = nullptr;  // null: a Storage without a name

  const Header* header() const {
    if (binding != nullptr) return &binding->header;
    return storage->header ? &*storage->header : nullptr;
  }
  int64_t since_unix_ns() const {
    return binding != nullptr ? binding->published_unix_ns : storage->created_unix_ns;
  }
};

// The rows of `storages`, which must outlive them. Of a Storage's names only those that begin with `prefix`. By name:
// names first, then Storages without one by id; bytes, holders: the most first; age: the youngest first.
std::vector<ListRow> Rows(const std::vector<StorageRecord>& storages, const std::string& prefix,
                          ListOrder order, bool reverse);

// "named", "in flight from pid 41": the state as people read it.
std::string StateText(const StorageRecord& storage);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_LIST_H_
