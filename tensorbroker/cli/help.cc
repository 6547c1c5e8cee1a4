// The --help of a program and of its commands, from their model.
#include <fmt/format.h>

#include <algorithm>

#include "tensorbroker/cli/model.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

constexpr int kUnlimited = 1 << 20;

struct Line {
  std::string left;
  std::string right;
};

// Two columns: what is typed, and what it does.
std::string Columns(const std::vector<Line>& lines, int columns) {
  int left = 0;
  for (const Line& line : lines) left = std::max(left, DisplayWidth(line.left));
  left = std::min(left, 26);
  std::string text;
  for (const Line& line : lines) {
    text += "  " + line.left;
    int at = DisplayWidth(line.left);
    if (at > left) {
      text += "\n  ";
      at = 0;
    }
    std::string indent(static_cast<size_t>(left - at + 2), ' ');
    for (const std::string& part : Wrap(line.right, std::max(20, columns - left - 4))) {
      text += indent + part + "\n";
      indent.assign(static_cast<size_t>(left + 4), ' ');
    }
  }
  return text;
}

std::string Paragraphs(const std::string& paragraphs, int columns) {
  std::string text;
  for (size_t begin = 0; begin < paragraphs.size();) {
    size_t end = paragraphs.find('\n', begin);
    if (end == std::string::npos) end = paragraphs.size();
    for (const std::string& line : Wrap(paragraphs.substr(begin, end - begin), columns)) text += line + "\n";
    begin = end + 1;
  }
  return text;
}

std::vector<Line> OptionLines(const std::vector<OptionModel>& options) {
  std::vector<Line> lines;
  for (const OptionModel& option : options) {
    std::string help = option.help;
    if (!option.choices.empty()) help += fmt::format(" ({})", fmt::join(option.choices, ", "));
    lines.push_back({Spelling(option), help});
  }
  return lines;
}

int Limit(int columns) { return columns <= 0 ? kUnlimited : columns; }

}  // namespace

std::string Usage(const CommandModel& command) {
  std::string usage = command.name;
  std::string last;
  for (const ArgumentModel& argument : command.arguments) {
    std::string name = argument.name + (argument.many ? "..." : "");
    if (argument.completes == Completes::kCommand) name = "-- " + name;
    (argument.completes == Completes::kCommand ? last : usage) +=
        argument.required ? " " + name : " [" + name + "]";
  }
  if (!command.options.empty()) usage += " [options]";
  return usage + last;
}

std::string Spelling(const OptionModel& option) {
  std::string text = fmt::format("{}", fmt::join(option.names, ", "));
  if (!option.value.empty()) text += " " + option.value;
  return text;
}

std::string ProgramHelp(const ProgramModel& program, int columns) {
  columns = Limit(columns);
  std::string text = fmt::format("Usage: {} COMMAND [arguments] [options]\n\n", program.name);
  text += Paragraphs(program.summary + ".", columns);
  text += "\nCommands:\n";
  std::vector<Line> lines;
  for (const CommandModel& command : program.commands) lines.push_back({command.name, command.summary});
  text += Columns(lines, columns);
  text += "\nOptions of every command:\n" + Columns(OptionLines(program.options), columns);
  text += "\n" + Paragraphs(program.description, columns);
  return text + fmt::format("\n\"{} COMMAND --help\" says more, with examples.\n", program.name);
}

std::string CommandHelp(const ProgramModel& program, const CommandModel& command, int columns) {
  columns = Limit(columns);
  std::string text = fmt::format("Usage: {} {}\n\n", program.name, Usage(command));
  text += Paragraphs(command.summary + ".", columns);
  if (!command.description.empty()) text += "\n" + Paragraphs(command.description, columns);
  if (!command.arguments.empty()) {
    std::vector<Line> lines;
    for (const ArgumentModel& argument : command.arguments) lines.push_back({argument.name, argument.help});
    text += "\nArguments:\n" + Columns(lines, columns);
  }
  if (!command.options.empty()) text += "\nOptions:\n" + Columns(OptionLines(command.options), columns);
  text += "\nOptions of every command:\n" + Columns(OptionLines(program.options), columns);
  if (!command.examples.empty()) {
    text += "\nExamples:\n";
    for (const ExampleModel& example : command.examples)
      text += fmt::format("  $ {}\n      {}\n", example.line, example.help);
  }
  return text;
}

}  // namespace tensorbroker::cli
