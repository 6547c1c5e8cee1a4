// What every command works with: the options of all commands, the streams, the connection.
#ifndef TENSORBROKER_CLI_CONTEXT_H_
#define TENSORBROKER_CLI_CONTEXT_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/ids.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/cli/console.h"
#include "tensorbroker/client/client.h"

namespace tensorbroker::cli {

struct GlobalOptions {
  std::string socket;
  Duration timeout = std::chrono::seconds(30);
  bool timeout_given = false;
  bool json = false;
  bool exact_bytes = false;
  std::string color = "auto";
};

// One run of one command. Not thread-safe.
class Context {
 public:
  Context(std::string command, const GlobalOptions& options, const Console& console)
      : command_(std::move(command)), options_(options), console_(console) {}

  const GlobalOptions& options() const { return options_; }
  const Console& console() const { return console_; }
  bool json() const { return options_.json; }

  // A session labelled "tensorctl COMMAND". Codes as Client::Connect.
  StatusOr<Client> Connect() const;

  // "1.5 MiB", or "1572864" with --bytes.
  std::string Bytes(int64_t bytes) const;

 private:
  const std::string command_;
  const GlobalOptions& options_;
  const Console& console_;
};

// What a NAME|ID argument means: an id where it has an id's form, else a name.
using Subject = std::variant<std::string, StorageId>;
Subject ParseSubject(const std::string& text);

// The record of a name or id; an id-shaped text that is no live id is looked up as a name. Codes as Inspector::Stat.
StatusOr<StorageRecord> StatSubject(const Inspector& inspector, const std::string& text);

// "850 ms", "4 min": how long ago `unix_ns` was; a time to come is "0 s".
std::string Age(int64_t unix_ns);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_CONTEXT_H_
