// Records as a broker would give them, for tests of what tensorctl makes of them.
#ifndef TENSORBROKER_TESTS_CLI_RECORDS_H_
#define TENSORBROKER_TESTS_CLI_RECORDS_H_

#include <string>
#include <utility>

#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {

inline constexpr int64_t kNow = 1'700'000'000'000'000'000;

inline Header FloatHeader(Dims shape) { return *Header::Contiguous(std::move(shape), DType::kFloat32); }

inline NameBinding BindingOf(std::string name, Dims shape) {
  NameBinding binding;
  binding.name = std::move(name);
  binding.version = 1;
  binding.header = FloatHeader(std::move(shape));
  binding.published_unix_ns = kNow;
  binding.publisher_pid = 41;
  binding.publisher_alive = true;
  return binding;
}

inline Holder HolderOf(int32_t pid, std::string label = "loader") {
  Holder holder;
  holder.session = {7, static_cast<uint64_t>(pid)};
  holder.pid = pid;
  holder.label = std::move(label);
  holder.command = "python loader.py";
  holder.since_unix_ns = kNow;
  return holder;
}

inline StorageRecord StorageOf(uint64_t serial, int64_t size_bytes, std::vector<NameBinding> names = {},
                               std::vector<Holder> holders = {}) {
  StorageRecord storage;
  storage.id = {0x9f3a61c204d7be15, serial};
  storage.size_bytes = size_bytes;
  storage.reserved_bytes = (size_bytes + 4095) / 4096 * 4096;
  storage.state = names.empty() ? StorageState::kHeld : StorageState::kNamed;
  storage.names = std::move(names);
  storage.created_unix_ns = kNow;
  storage.creator_pid = 41;
  storage.holder_count = static_cast<uint32_t>(holders.size());
  storage.holders = std::move(holders);
  storage.segment = {0x9f3a61c204d7be15, serial + 1000};
  storage.segment_kind = "shm";
  return storage;
}

inline BrokerInfo InfoOf(int64_t capacity_bytes, int64_t used_bytes) {
  BrokerInfo info;
  info.version = "0.1.0";
  info.instance = "default";
  info.epoch = 0x9f3a61c204d7be15;
  info.pid = 40;
  info.started_unix_ns = kNow;
  info.capacity_bytes = capacity_bytes;
  info.capacity_bound_by = "--capacity";
  info.used_bytes = used_bytes;
  info.memory = "memfd";
  return info;
}

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_TESTS_CLI_RECORDS_H_
