#include "tensorbroker/cli/list.h"

#include <gtest/gtest.h>

#include "tests/cli/records.h"

namespace tensorbroker::cli {
namespace {

std::vector<StorageRecord> Storages() {
  std::vector<StorageRecord> storages = {
      StorageOf(1, 4000, {BindingOf("b", {1000}), BindingOf("a", {10})}, {HolderOf(41)}),
      StorageOf(2, 8000, {}, {HolderOf(42), HolderOf(43)}),
      StorageOf(3, 100, {BindingOf("other/c", {25})}),
  };
  storages[2].names[0].published_unix_ns = kNow + 5;
  return storages;
}

std::vector<std::string> Keys(const std::vector<ListRow>& rows) {
  std::vector<std::string> keys;
  for (const ListRow& row : rows) {
    keys.push_back(row.binding != nullptr ? row.binding->name : "#" + std::to_string(row.storage->id.serial));
  }
  return keys;
}

TEST(List, ANameIsARowAndAStorageWithoutOneToo) {
  const auto storages = Storages();
  EXPECT_EQ(Keys(Rows(storages, "", ListOrder::kName, false)),
            (std::vector<std::string>{"a", "b", "other/c", "#2"}));
  EXPECT_EQ(Keys(Rows(storages, "", ListOrder::kName, true)),
            (std::vector<std::string>{"#2", "other/c", "b", "a"}));
}

TEST(List, APrefixLeavesOutTheOtherNamesOfAStorage) {
  const auto storages = Storages();
  EXPECT_EQ(Keys(Rows(storages, "a", ListOrder::kName, false)), std::vector<std::string>{"a"});
}

TEST(List, OrdersByBytesAgeHoldersAndId) {
  const auto storages = Storages();
  EXPECT_EQ(Keys(Rows(storages, "", ListOrder::kBytes, false)),
            (std::vector<std::string>{"#2", "b", "other/c", "a"}));
  EXPECT_EQ(Keys(Rows(storages, "", ListOrder::kAge, false)),
            (std::vector<std::string>{"other/c", "a", "b", "#2"}));
  EXPECT_EQ(Keys(Rows(storages, "", ListOrder::kHolders, false)),
            (std::vector<std::string>{"#2", "a", "b", "other/c"}));
  EXPECT_EQ(Keys(Rows(storages, "", ListOrder::kId, false)),
            (std::vector<std::string>{"a", "b", "#2", "other/c"}));
}

TEST(List, FiltersAreJoinedByAnd) {
  const auto storages = Storages();
  EXPECT_TRUE(Matches(storages[0], {}));
  EXPECT_TRUE(
      Matches(storages[0], {.min_bytes = 4000, .holder_pid = 41, .state = "named", .dtype = "float32"}));
  EXPECT_FALSE(Matches(storages[0], {.min_bytes = 4001}));
  EXPECT_FALSE(Matches(storages[0], {.holder_pid = 42}));
  EXPECT_FALSE(Matches(storages[0], {.state = "held"}));
  EXPECT_FALSE(Matches(storages[0], {.dtype = "int8"}));
  EXPECT_FALSE(Matches(storages[1], {.dtype = "float32"})) << "untyped bytes";
}

// Case T1.
TEST(List, AHandleUnderWayNamesItsSender) {
  StorageRecord storage = StorageOf(1, 4096);
  storage.state = StorageState::kInFlight;
  storage.in_flight_from_pids = {41};
  EXPECT_EQ(StateText(storage), "in flight from pid 41");
  storage.state = StorageState::kHeld;
  EXPECT_EQ(StateText(storage), "held");
}

}  // namespace
}  // namespace tensorbroker::cli
