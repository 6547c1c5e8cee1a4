// tensorctl's commands and options, declared once. CLI11, which parses them, stays behind this header.
#ifndef TENSORBROKER_CLI_COMMAND_LINE_H_
#define TENSORBROKER_CLI_COMMAND_LINE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensorbroker/base/clock.h"
#include "tensorbroker/base/status.h"
#include "tensorbroker/cli/model.h"

namespace tensorbroker::cli {

class Context;

enum class Need : uint8_t { kRequired, kOptional };
// Words that are handed on as they are: all after the command, or all after "--".
enum class Verbatim : uint8_t { kAll, kAfterDashes };

// One command under construction. What `into` points at must outlive the parsing. Not thread-safe.
class Command {
 public:
  // Does the work; gives the exit code. An error is printed by the caller, and is exit code 1.
  using Runner = std::function<StatusOr<int>(Context&)>;

  Command& Argument(const std::string& name, std::string* into, const std::string& help,
                    Completes completes = Completes::kNothing, Need need = Need::kRequired);
  // One or more.
  Command& Arguments(const std::string& name, std::vector<std::string>* into, const std::string& help,
                     Completes completes = Completes::kNothing);
  Command& Rest(const std::string& name, std::vector<std::string>* into, const std::string& help,
                Verbatim verbatim, Need need);
  Command& Flag(const std::string& names, bool* into, const std::string& help);
  Command& Text(const std::string& names, std::string* into, const std::string& value,
                const std::string& help, Completes completes = Completes::kNothing);
  Command& Choice(const std::string& names, std::string* into, const std::string& value,
                  const std::vector<std::string>& choices, const std::string& help);
  Command& Bytes(const std::string& names, int64_t* into, const std::string& help);
  // `given`, where it is not null, says whether the option was there.
  Command& Time(const std::string& names, Duration* into, const std::string& help, bool* given = nullptr);
  // A whole number from 1 to `most`.
  Command& Number(const std::string& names, int64_t* into, const std::string& value, const std::string& help,
                  int64_t most = std::numeric_limits<int64_t>::max());
  Command& Describe(const std::string& paragraph);
  Command& Example(const std::string& line, const std::string& help);
  Command& Run(Runner runner);

  const std::string& name() const;

 private:
  friend class CommandLine;
  struct Impl;
  explicit Command(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;

 public:
  ~Command();
};

// Not thread-safe.
class CommandLine {
 public:
  enum class Outcome : uint8_t { kRun, kHelp, kVersion, kUsageError };
  struct Parsed {
    Outcome outcome = Outcome::kUsageError;
    std::string command;  // empty: none was named
    std::string message;  // kUsageError: why
  };

  CommandLine(const std::string& name, const std::string& version, const std::string& summary,
              const std::string& description);
  ~CommandLine();

  // Options that stand before or after any command.
  Command& global();
  // Valid while this CommandLine lives. A hidden command is in no help.
  Command& Add(const std::string& name, const std::string& summary, bool hidden = false);

  // `args` without the program's name. Fills what the options point at.
  Parsed Parse(std::vector<std::string> args);
  // Runs the command that Parse gave.
  StatusOr<int> Run(const std::string& command, Context& context) const;
  // Walks the commands and options that are declared so far.
  ProgramModel Model() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_COMMAND_LINE_H_
