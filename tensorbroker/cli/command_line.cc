#include "tensorbroker/cli/command_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <deque>
#include <map>

#include "tensorbroker/base/name.h"
#include "tensorbroker/base/units.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

// What CLI11 does not keep of an option.
struct Extra {
  std::vector<std::string> choices;
  Completes completes = Completes::kNothing;
};

bool TakesValue(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

OptionModel ModelOf(const CLI::Option& option, const Extra& extra) {
  OptionModel model;
  for (const std::string& name : option.get_snames()) model.names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) model.names.push_back("--" + name);
  if (TakesValue(option)) model.value = option.get_type_name();
  model.help = option.get_description();
  model.choices = extra.choices;
  model.completes = extra.completes;
  return model;
}

}  // namespace

struct Command::Impl {
  CLI::App* app = nullptr;
  std::string description;
  std::vector<ExampleModel> examples;
  std::map<const CLI::Option*, Extra> extras;
  std::vector<std::string>* many = nullptr;
  std::vector<std::string>* rest = nullptr;
  ArgumentModel rest_model;
  Verbatim verbatim = Verbatim::kAll;
  bool hidden = false;
  Runner runner;

  // An option of one value that `parse` reads; its error refuses the option.
  CLI::Option* Add(const std::string& names, const std::string& value, const std::string& help,
                   const std::function<Status(const std::string&)>& parse) {
    CLI::Option* option = app->add_option(
        names, [parse](const CLI::results_t& results) { return parse(results.back()).ok(); }, help);
    option->type_name(value)->check(CLI::Validator(
        [parse](const std::string& text) {
          const Status status = parse(text);
          return status.ok() ? std::string() : std::string(Message(status));
        },
        ""));
    return option;
  }
};

Command::Command(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Command::~Command() = default;

const std::string& Command::name() const { return impl_->app->get_name(); }

Command& Command::Argument(const std::string& name, std::string* into, const std::string& help,
                           Completes completes, Need need) {
  CLI::Option* option = impl_->app->add_option(name, *into, help);
  option->type_name(name)->required(need == Need::kRequired);
  impl_->extras[option].completes = completes;
  return *this;
}

Command& Command::Arguments(const std::string& name, std::vector<std::string>* into, const std::string& help,
                            Completes completes) {
  CLI::Option* option = impl_->app->add_option(name, *into, help);
  option->type_name(name)->required();
  impl_->many = into;
  impl_->extras[option].completes = completes;
  return *this;
}

Command& Command::Rest(const std::string& name, std::vector<std::string>* into, const std::string& help,
                       Verbatim verbatim, Need need) {
  impl_->rest = into;
  impl_->verbatim = verbatim;
  impl_->rest_model = {name, help, need == Need::kRequired, true,
                       verbatim == Verbatim::kAfterDashes ? Completes::kCommand : Completes::kNothing};
  return *this;
}

Command& Command::Flag(const std::string& names, bool* into, const std::string& help) {
  impl_->app->add_flag(names, *into, help);
  return *this;
}

Command& Command::Text(const std::string& names, std::string* into, const std::string& value,
                       const std::string& help, Completes completes) {
  CLI::Option* option = impl_->app->add_option(names, *into, help);
  option->type_name(value);
  impl_->extras[option].completes = completes;
  return *this;
}

Command& Command::Choice(const std::string& names, std::string* into, const std::string& value,
                         const std::vector<std::string>& choices, const std::string& help) {
  CLI::Option* option = impl_->Add(names, value, help, [choices, into](const std::string& text) {
    if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
      std::string known;
      for (const std::string& choice : choices) known += (known.empty() ? "" : ", ") + choice;
      return InvalidArgumentError("\"" + text + "\" is none of " + known);
    }
    *into = text;
    return OkStatus();
  });
  impl_->extras[option].choices = choices;
  return *this;
}

Command& Command::Bytes(const std::string& names, int64_t* into, const std::string& help) {
  impl_->Add(names, "SIZE", help, [into](const std::string& text) {
    TB_ASSIGN_OR_RETURN(*into, ParseBytes(text));
    return OkStatus();
  });
  return *this;
}

Command& Command::Time(const std::string& names, Duration* into, const std::string& help, bool* given) {
  impl_->Add(names, "TIME", help, [into, given](const std::string& text) {
    TB_ASSIGN_OR_RETURN(*into, ParseDuration(text));
    if (given != nullptr) *given = true;
    return OkStatus();
  });
  return *this;
}

Command& Command::Number(const std::string& names, int64_t* into, const std::string& value,
                         const std::string& help, int64_t most) {
  impl_->Add(names, value, help, [into, most](const std::string& text) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *into);
    if (error != std::errc() || end != text.data() + text.size() || *into < 1 || *into > most)
      return InvalidArgumentError(fmt::format("{} is no number from 1 to {}", QuoteForMessage(text), most));
    return OkStatus();
  });
  return *this;
}

Command& Command::Describe(const std::string& paragraph) {
  if (!impl_->description.empty()) impl_->description += '\n';
  impl_->description += paragraph;
  return *this;
}

Command& Command::Example(const std::string& line, const std::string& help) {
  impl_->examples.push_back({line, help});
  return *this;
}

Command& Command::Run(Runner runner) {
  impl_->runner = std::move(runner);
  return *this;
}

struct CommandLine::Impl {
  CLI::App app;
  std::string version;
  std::string description;
  bool wants_version = false;
  std::unique_ptr<Command> global;
  std::deque<std::unique_ptr<Command>> commands;

  Command* Find(const std::string& name) const {
    for (const auto& command : commands) {
      if (command->name() == name) return command.get();
    }
    return nullptr;
  }

  // Where the command's name stands in `args`; args.size() where there is none.
  size_t FindCommandWord(const std::vector<std::string>& args) const {
    for (size_t i = 0; i < args.size(); ++i) {
      if (args[i].empty() || args[i][0] != '-') return i;
      if (args[i].find('=') != std::string::npos) continue;
      const auto& options = app.get_options();
      if (std::any_of(options.begin(), options.end(), [&](const CLI::Option* option) {
            return option->check_name(args[i]) && TakesValue(*option);
          })) {
        ++i;
      }
    }
    return args.size();
  }

  // CLI11 would take an argument "[a,b]" of several apart, and names may hold brackets: kGuard, which no argument that
  // means something ends in, hides the last one while CLI11 looks.
  static constexpr char kGuard = '\x01';
  static void Guard(std::vector<std::string>& args) {
    for (std::string& arg : args) {
      if (arg.starts_with('[') && arg.ends_with(']')) arg += kGuard;
    }
  }
  void Unguard() const {
    for (const auto& command : commands) {
      if (command->impl_->many == nullptr) continue;
      for (std::string& arg : *command->impl_->many) {
        if (arg.starts_with('[') && arg.ends_with(kGuard)) arg.pop_back();
      }
    }
  }

  // Moves what a command takes verbatim out of `args`, before CLI11 sees it.
  void TakeRest(std::vector<std::string>& args) const {
    const size_t word = FindCommandWord(args);
    if (word >= args.size()) return;
    const Command* command = Find(args[word]);
    if (command == nullptr || command->impl_->rest == nullptr) return;
    auto begin = args.begin() + static_cast<std::ptrdiff_t>(word) + 1;
    if (command->impl_->verbatim == Verbatim::kAll) {
      if (begin != args.end() && (*begin == "-h" || *begin == "--help")) return;
      command->impl_->rest->assign(begin, args.end());
      args.erase(begin, args.end());
      return;
    }
    const auto dashes = std::find(begin, args.end(), "--");
    if (dashes == args.end()) return;
    command->impl_->rest->assign(dashes + 1, args.end());
    args.erase(dashes, args.end());
  }
};

CommandLine::CommandLine(const std::string& name, const std::string& version, const std::string& summary,
                         const std::string& description)
    : impl_(std::make_unique<Impl>()) {
  impl_->app.name(name);
  impl_->app.description(summary);
  impl_->app.set_help_flag("-h,--help", "Print this help and end");
  impl_->app.add_flag("--version", impl_->wants_version, "Print the version and end");
  impl_->app.require_subcommand(0, 1);
  impl_->version = version;
  impl_->description = description;
  auto global = std::make_unique<Command::Impl>();
  global->app = &impl_->app;
  impl_->global.reset(new Command(std::move(global)));
}

CommandLine::~CommandLine() = default;

Command& CommandLine::global() { return *impl_->global; }

Command& CommandLine::Add(const std::string& name, const std::string& summary, bool hidden) {
  auto command = std::make_unique<Command::Impl>();
  command->app = impl_->app.add_subcommand(name, summary);
  command->app->fallthrough();
  command->hidden = hidden;
  impl_->commands.emplace_back(new Command(std::move(command)));
  return *impl_->commands.back();
}

CommandLine::Parsed CommandLine::Parse(std::vector<std::string> args) {
  Parsed parsed;
  impl_->TakeRest(args);
  const size_t word = impl_->FindCommandWord(args);
  const Command* named = word < args.size() ? impl_->Find(args[word]) : nullptr;
  if (named != nullptr && named->impl_->many != nullptr) Impl::Guard(args);
  std::reverse(args.begin(), args.end());  // as CLI11 wants it
  const auto parsed_command = [&] {
    const auto apps = impl_->app.get_subcommands();
    return apps.empty() ? std::string() : apps.front()->get_name();
  };
  try {
    impl_->app.parse(std::move(args));
  } catch (const CLI::CallForHelp&) {
    parsed.command = parsed_command();
    parsed.outcome = Outcome::kHelp;
    return parsed;
  } catch (const CLI::Error& error) {
    parsed.command = parsed_command();
    parsed.message = error.what();
    return parsed;
  }
  impl_->Unguard();
  parsed.command = parsed_command();
  if (impl_->wants_version) {
    parsed.outcome = Outcome::kVersion;
    return parsed;
  }
  const Command* command = impl_->Find(parsed.command);
  if (command == nullptr) {
    parsed.message = "no command is given";
    return parsed;
  }
  const Command::Impl& chosen = *command->impl_;
  if (chosen.rest != nullptr && chosen.rest->empty() && chosen.rest_model.required) {
    parsed.message = chosen.rest_model.name + " is required after --";
    return parsed;
  }
  parsed.outcome = Outcome::kRun;
  return parsed;
}

StatusOr<int> CommandLine::Run(const std::string& command, Context& context) const {
  const Command* found = impl_->Find(command);
  if (found == nullptr || !found->impl_->runner) return InternalError("no command \"" + command + "\"");
  return found->impl_->runner(context);
}

ProgramModel CommandLine::Model() const {
  ProgramModel model;
  model.name = impl_->app.get_name();
  model.version = impl_->version;
  model.summary = impl_->app.get_description();
  model.description = impl_->description;
  const auto extra_of = [](const Command& command, const CLI::Option* option) {
    const auto found = command.impl_->extras.find(option);
    return found == command.impl_->extras.end() ? Extra{} : found->second;
  };
  for (const CLI::Option* option : std::as_const(impl_->app).get_options()) {
    model.options.push_back(ModelOf(*option, extra_of(*impl_->global, option)));
  }
  for (const auto& command : impl_->commands) {
    const Command::Impl& from = *command->impl_;
    if (from.hidden) continue;
    CommandModel to;
    to.name = from.app->get_name();
    to.summary = from.app->get_description();
    to.description = from.description;
    to.examples = from.examples;
    for (const CLI::Option* option : std::as_const(*from.app).get_options()) {
      const Extra extra = extra_of(*command, option);
      if (option == from.app->get_help_ptr()) continue;  // the program's own stands for all
      if (option->nonpositional()) {
        to.options.push_back(ModelOf(*option, extra));
      } else {
        to.arguments.push_back({option->get_name(), option->get_description(), option->get_required(),
                                option->get_items_expected_max() > 1, extra.completes});
      }
    }
    if (from.rest != nullptr) to.arguments.push_back(from.rest_model);
    model.commands.push_back(std::move(to));
  }
  return model;
}

}  // namespace tensorbroker::cli
