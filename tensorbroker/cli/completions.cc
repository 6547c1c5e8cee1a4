// Completions for bash, zsh and fish, from a program's model. Names of live tensors are asked from the broker as one types.
#include <fmt/format.h>

#include "tensorbroker/cli/model.h"

namespace tensorbroker::cli {
namespace {

// 'text' for a POSIX shell.
std::string Quote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// For fish, where a backslash escapes inside single quotes.
std::string FishQuote(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += c;
  }
  return quoted + "'";
}

// For a spec of zsh's _arguments: brackets and colons have a meaning there.
std::string ZshText(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string Words(const std::vector<OptionModel>& options) {
  std::string words;
  for (const OptionModel& option : options) {
    for (const std::string& name : option.names) words += (words.empty() ? "" : " ") + name;
  }
  return words;
}

std::string BashAction(const OptionModel& option) {
  if (!option.choices.empty()) {
    return fmt::format("COMPREPLY=($(compgen -W {} -- \"$cur\"))",
                       Quote(fmt::format("{}", fmt::join(option.choices, " "))));
  }
  if (option.completes == Completes::kFile) return "_tensorctl_files";
  if (option.completes == Completes::kTensor) return "_tensorctl_names";
  return "COMPREPLY=()";
}

std::string BashOptionCases(const std::vector<OptionModel>& options) {
  std::string cases;
  for (const OptionModel& option : options) {
    if (option.value.empty()) continue;
    cases += fmt::format("    {}) {}; return ;;\n", fmt::join(option.names, "|"), BashAction(option));
  }
  return cases;
}

std::string ZshAction(const std::vector<std::string>& choices, Completes completes) {
  if (!choices.empty()) return fmt::format("({})", fmt::join(choices, " "));
  if (completes == Completes::kFile) return "_files";
  if (completes == Completes::kTensor) return "_tensorctl_names";
  if (completes == Completes::kCommand) return "_command_names";
  return " ";
}

std::string ZshOptions(const std::vector<OptionModel>& options, const std::string& indent) {
  std::string specs;
  for (const OptionModel& option : options) {
    for (const std::string& name : option.names) {
      std::string spec = fmt::format("{}[{}]", name, ZshText(option.help));
      if (!option.value.empty())
        spec += fmt::format(":{}:{}", option.value, ZshAction(option.choices, option.completes));
      specs += indent + Quote(spec) + " \\\n";
    }
  }
  return specs;
}

std::string FishOption(const std::string& program, const std::string& condition, const OptionModel& option) {
  std::string line = fmt::format("complete -c {}", program);
  if (!condition.empty()) line += fmt::format(" -n {}", FishQuote(condition));
  for (const std::string& name : option.names) {
    line += name.starts_with("--") ? fmt::format(" -l {}", name.substr(2))
                                   : fmt::format(" -s {}", name.substr(1));
  }
  if (!option.value.empty()) line += " -x";
  if (!option.choices.empty())
    line += fmt::format(" -a {}", FishQuote(fmt::format("{}", fmt::join(option.choices, " "))));
  if (option.completes == Completes::kTensor) line += " -a '(__tensorctl_names)'";
  if (option.completes == Completes::kFile) line += " -F";
  return line + fmt::format(" -d {}\n", FishQuote(option.help));
}

}  // namespace

std::string BashCompletion(const ProgramModel& program) {
  std::string names;
  for (const CommandModel& command : program.commands) names += (names.empty() ? "" : " ") + command.name;
  std::string text =
      fmt::format("# bash completion for {}, generated from its command line.\n", program.name);
  // No `compgen -W` for names: it would expand a "$(...)" in one.
  text += R"sh(_tensorctl_names() {
  local name
  while IFS= read -r name; do
    COMPREPLY+=("$(printf %q "$name")")
  done < <(tensorctl "${socket[@]}" __names -- "$cur" 2>/dev/null)
}
_tensorctl_files() {
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}
_tensorctl() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command='' position=0 i
  local socket=()
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == --socket ]]; then socket=(--socket "${COMP_WORDS[i + 1]}"); fi
    case ${COMP_WORDS[i]} in
)sh";
  std::string valued;
  const auto add_valued = [&](const std::vector<OptionModel>& options) {
    for (const OptionModel& option : options) {
      if (option.value.empty()) continue;
      for (const std::string& name : option.names) {
        if ((valued + "|").find(name + "|") == std::string::npos)
          valued += (valued.empty() ? "" : "|") + name;
      }
    }
  };
  add_valued(program.options);
  for (const CommandModel& command : program.commands) add_valued(command.options);
  text += fmt::format("      {}) i=$((i + 1)) ;;\n", valued);
  text += R"sh(      -*) ;;
      *) if [[ -z $command ]]; then command=${COMP_WORDS[i]}; else position=$((position + 1)); fi ;;
    esac
  done
  case $prev in
)sh";
  text += BashOptionCases(program.options);
  text += "  esac\n  case $command in\n";
  text += fmt::format("  '') COMPREPLY=($(compgen -W {} -- \"$cur\")) ;;\n",
                      Quote(names + " " + Words(program.options)));
  for (const CommandModel& command : program.commands) {
    text += fmt::format("  {})\n", command.name);
    if (const std::string cases = BashOptionCases(command.options); !cases.empty()) {
      text += "    case $prev in\n" + cases + "    esac\n";
    }
    text +=
        fmt::format("    if [[ $cur == -* ]]; then COMPREPLY=($(compgen -W {} -- \"$cur\")); return; fi\n",
                    Quote(Words(command.options) + " " + Words(program.options)));
    text += "    case $position in\n";
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      const ArgumentModel& argument = command.arguments[i];
      std::string action;
      if (argument.completes == Completes::kTensor) action = "_tensorctl_names";
      if (argument.completes == Completes::kFile) action = "_tensorctl_files";
      if (argument.completes == Completes::kCommand) action = "COMPREPLY=($(compgen -c -- \"$cur\"))";
      if (action.empty()) continue;
      text += fmt::format("    {}) {} ;;\n", argument.many ? "*" : fmt::format("{}", i), action);
    }
    text += "    esac ;;\n";
  }
  return text + "  esac\n}\ncomplete -F _tensorctl " + program.name + "\n";
}

std::string ZshCompletion(const ProgramModel& program) {
  std::string text = fmt::format("#compdef {}\n# zsh completion for {}, generated from its command line.\n",
                                 program.name, program.name);
  text += R"sh(_tensorctl_names() {
  local -a names
  names=(${(f)"$(tensorctl __names -- "$PREFIX" 2>/dev/null)"})
  compadd -a names
}
_tensorctl() {
  local -a commands
  local context state line
  commands=(
)sh";
  for (const CommandModel& command : program.commands) {
    text += "    " + Quote(command.name + ":" + ZshText(command.summary)) + "\n";
  }
  text += "  )\n  _arguments -C \\\n" + ZshOptions(program.options, "    ");
  text += "    '1: :->command' '*:: :->arguments'\n  case $state in\n";
  text += "  command) _describe -t commands command commands ;;\n  arguments)\n    case $words[1] in\n";
  for (const CommandModel& command : program.commands) {
    text += fmt::format("    {})\n      _arguments \\\n", command.name);
    text += ZshOptions(command.options, "        ") + ZshOptions(program.options, "        ");
    for (size_t i = 0; i < command.arguments.size(); ++i) {
      const ArgumentModel& argument = command.arguments[i];
      const std::string place = argument.many ? "*" : fmt::format("{}", i + 1);
      text += "        " +
              Quote(fmt::format("{}:{}:{}", place, argument.name, ZshAction({}, argument.completes))) +
              " \\\n";
    }
    text += "        && return ;;\n";
  }
  return text + "    esac ;;\n  esac\n}\n_tensorctl \"$@\"\n";
}

std::string FishCompletion(const ProgramModel& program) {
  std::string text =
      fmt::format("# fish completion for {}, generated from its command line.\n", program.name);
  text += "function __tensorctl_names\n  tensorctl __names -- (commandline -ct) 2>/dev/null\nend\n";
  text += fmt::format("complete -c {} -f\n", program.name);
  for (const OptionModel& option : program.options) text += FishOption(program.name, "", option);
  for (const CommandModel& command : program.commands) {
    text += fmt::format("complete -c {} -n __fish_use_subcommand -a {} -d {}\n", program.name, command.name,
                        FishQuote(command.summary));
    const std::string condition = "__fish_seen_subcommand_from " + command.name;
    for (const OptionModel& option : command.options) text += FishOption(program.name, condition, option);
    for (const ArgumentModel& argument : command.arguments) {
      const std::string prefix = fmt::format("complete -c {} -n {}", program.name, FishQuote(condition));
      if (argument.completes == Completes::kTensor) text += prefix + " -a '(__tensorctl_names)'\n";
      if (argument.completes == Completes::kFile) text += prefix + " -F\n";
      if (argument.completes == Completes::kCommand) text += prefix + " -a '(__fish_complete_subcommand)'\n";
    }
  }
  return text;
}

}  // namespace tensorbroker::cli
