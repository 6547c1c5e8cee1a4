// The --json output of every command: text that docs/schema/ describes and tests pin. nlohmann::json stays behind this
// header. Sizes are bytes, times nanoseconds since 1970 (integers); ids and names are strings. All is ASCII: other
// characters are \u escapes, so hostile bytes reach no terminal.
#ifndef TENSORBROKER_CLI_JSON_H_
#define TENSORBROKER_CLI_JSON_H_

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tensorbroker/base/status.h"
#include "tensorbroker/cli/doctor.h"
#include "tensorbroker/client/inspector.h"

namespace tensorbroker::cli {

// Each ends in a newline.
std::string ErrorJson(std::string_view code, std::string_view message);
std::string InfoJson(const BrokerInfo& info, const std::string& socket);
// `total_bytes` counts each Storage once.
std::string ListJson(const std::vector<StorageRecord>& storages, int64_t total_bytes);
std::string StatJson(const StorageRecord& storage);
std::string WhoJson(const std::vector<SessionRecord>& sessions);
// What put and wait found or made.
std::string TensorJson(std::string_view name, StorageId storage, const Header& header);
std::string GetJson(std::string_view name, std::string_view file, int64_t bytes_written,
                    const Header& header);
// `values` as `print` shows them.
std::string PrintJson(std::string_view name, const Header& header, std::string_view values);
std::string RenameJson(std::string_view from, std::string_view to);

struct Removed {
  std::string subject;
  bool is_id = false;
  int64_t holders = 0;  // is_id: who still hold it
};
struct NotRemoved {
  std::string subject;
  Status error;
};
std::string RemoveJson(const std::vector<Removed>& removed, const std::vector<NotRemoved>& failed);
// One line each, for a stream of them.
std::string WatchReadyJson(std::string_view prefix);
std::string EventJson(const Event& event);
std::string DoctorJson(const std::vector<Finding>& findings, const std::vector<std::string>& checked);
std::string StopJson(int32_t pid, bool ended);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_JSON_H_
