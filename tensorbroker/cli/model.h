// What a program's command line takes, as plain values: help, man pages and shell completions are made from it.
#ifndef TENSORBROKER_CLI_MODEL_H_
#define TENSORBROKER_CLI_MODEL_H_

#include <cstdint>
#include <string>
#include <vector>

namespace tensorbroker::cli {

// What a shell may offer for a value.
enum class Completes : uint8_t { kNothing, kTensor, kFile, kCommand };

struct OptionModel {
  std::vector<std::string> names;  // as typed, the long one last: "-r", "--reverse"
  std::string value;               // what it takes: "TIME"; empty: a flag
  std::string help;
  std::vector<std::string> choices;
  Completes completes = Completes::kNothing;
};

struct ArgumentModel {
  std::string name;
  std::string help;
  bool required = true;
  bool many = false;
  Completes completes = Completes::kNothing;
};

struct ExampleModel {
  std::string line;
  std::string help;
};

struct CommandModel {
  std::string name;
  std::string summary;      // one line, no full stop
  std::string description;  // paragraphs joined by "\n"
  std::vector<ArgumentModel> arguments;
  std::vector<OptionModel> options;
  std::vector<ExampleModel> examples;
};

struct ProgramModel {
  std::string name;
  std::string version;
  std::string summary;
  std::string description;
  std::vector<OptionModel> options;  // before or after any command
  std::vector<CommandModel> commands;
};

// "ls [PREFIX] [options]"
std::string Usage(const CommandModel& command);
// "-r, --reverse", "--sort KEY"
std::string Spelling(const OptionModel& option);

// ---- what is made from a model; `columns` 0: no limit.
std::string ProgramHelp(const ProgramModel& program, int columns);
std::string CommandHelp(const ProgramModel& program, const CommandModel& command, int columns);
// Roff, section 1.
std::string ManPage(const ProgramModel& program);
// Roff, section `section`, from what `name --help` prints.
std::string ManPageFromHelp(const std::string& name, int section, const std::string& help,
                            const std::string& version);
std::string BashCompletion(const ProgramModel& program);
std::string ZshCompletion(const ProgramModel& program);
std::string FishCompletion(const ProgramModel& program);

}  // namespace tensorbroker::cli

#endif  // TENSORBROKER_CLI_MODEL_H_
