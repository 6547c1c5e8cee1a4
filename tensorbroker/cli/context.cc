#include "tensorbroker/cli/context.h"

#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/base/units.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {

StatusOr<Client> Context::Connect() const {
  return Client::Connect(
      {.socket = options_.socket, .label = "tensorctl " + command_, .deadline = options_.timeout});
}

std::string Context::Bytes(int64_t bytes) const {
  return options_.exact_bytes ? fmt::format("{}", bytes) : HumanBytes(bytes);
}

Subject ParseSubject(const std::string& text) {
  StorageId id;
  if (ParseId(text, &id).ok()) return id;
  return text;
}

StatusOr<StorageRecord> StatSubject(const Inspector& inspector, const std::string& text) {
  const Subject subject = ParseSubject(text);
  if (const auto* id = std::get_if<StorageId>(&subject)) {
    StatusOr<StorageRecord> record = inspector.Stat(*id);
    if (record.ok() || record.status().code() != StatusCode::kNotFound) return record;
    StatusOr<StorageRecord> named = inspector.Stat(text);
    return named.ok() ? named : record;
  }
  return inspector.Stat(text);
}

std::string Age(int64_t unix_ns) {
  return HumanDuration(Duration(std::max<int64_t>(0, Clock::Real().UnixNanos() - unix_ns)));
}

}  // namespace tensorbroker::cli
