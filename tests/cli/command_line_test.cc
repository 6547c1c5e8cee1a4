#include "tensorbroker/cli/command_line.h"

#include <gtest/gtest.h>

#include "tensorbroker/cli/app.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

using Outcome = CommandLine::Outcome;

struct Fixture {
  GlobalOptions options;
  std::unique_ptr<CommandLine> line = MakeCommandLine(&options);

  CommandLine::Parsed Parse(std::vector<std::string> args) { return line->Parse(std::move(args)); }
};

// A command line of one command of each kind of argument.
struct Small {
  bool json = false;
  std::vector<std::string> many;
  std::vector<std::string> rest;
  std::vector<std::string> all;
  std::string text;
  int64_t number = 0;
  CommandLine line{"prog", "1", "summary", "description"};

  Small() {
    line.global().Flag("--json", &json, "json").Text("--socket", &text, "PATH", "socket");
    line.Add("many", "many").Arguments("NAME", &many, "names").Number("--number", &number, "N", "number");
    line.Add("rest", "rest").Rest("COMMAND", &rest, "command", Verbatim::kAfterDashes, Need::kRequired);
    line.Add("all", "all").Rest("ARGUMENT", &all, "arguments", Verbatim::kAll, Need::kOptional);
  }
};

using Words = std::vector<std::string>;

TEST(CommandLine, OptionsOfEveryCommandStandBeforeOrAfterIt) {
  for (const Words& args : {Words{"--json", "--socket", "/x", "ls"}, Words{"ls", "--json", "--socket", "/x"},
                            Words{"--socket=/x", "ls", "--json"}}) {
    Fixture fixture;
    const auto parsed = fixture.Parse(args);
    EXPECT_EQ(parsed.outcome, Outcome::kRun) << parsed.message;
    EXPECT_EQ(parsed.command, "ls");
    EXPECT_TRUE(fixture.options.json);
    EXPECT_EQ(fixture.options.socket, "/x");
  }
}

TEST(CommandLine, TimesHaveUnitsAndSayThatTheyWereGiven) {
  Fixture fixture;
  EXPECT_EQ(fixture.Parse({"ls", "--timeout", "250ms"}).outcome, Outcome::kRun);
  EXPECT_EQ(fixture.options.timeout, std::chrono::milliseconds(250));
  EXPECT_TRUE(fixture.options.timeout_given);
  EXPECT_FALSE(Fixture().options.timeout_given);
}

TEST(CommandLine, WrongUsageSaysWhatIsWrong) {
  const struct {
    Words args;
    std::string says;
  } kCases[] = {
      {{}, "no command"},
      {{"frobnicate"}, "frobnicate"},
      {{"ls", "--frobnicate"}, "--frobnicate"},
      {{"ls", "--sort", "colour"}, "none of name, bytes, age, holders, id"},
      {{"ls", "--min-bytes", "many"}, "is not a size"},
      {{"ls", "--timeout", "soon"}, "is not a time"},
      {{"ls", "--holder", "me"}, "--holder: \"me\" is no number from 1 to 2147483647"},
      {{"ls", "--holder", "99999999999999999999"}, "is no number"},
      {{"ls", "--holder", "2147483648"}, "is no number"},
      {{"ls", "--holder=-1"}, "is no number"},
      {{"ls", "--dtype", "bogus"}, "none of bool, uint8"},
      {{"watch", "--count=-5"}, "is no number from 1 to"},
      {{"watch", "--count", "0"}, "is no number"},
      {{"ls", "a", "b"}, "b"},
      {{"put", "name"}, "FILE"},
      {{"stat"}, "NAME|ID"},
      {{"run"}, "COMMAND is required after --"},
      {{"run", "--"}, "COMMAND is required after --"},
      {{"run", "true"}, "true"},
      {{"--socket"}, "--socket"},
  };
  for (const auto& test : kCases) {
    const auto parsed = Fixture().Parse(test.args);
    EXPECT_EQ(parsed.outcome, Outcome::kUsageError) << test.says;
    EXPECT_NE(parsed.message.find(test.says), std::string::npos) << parsed.message;
  }
}

TEST(CommandLine, ArgumentsWithBracketsStayWhole) {
  Small small;
  EXPECT_EQ(small.line.Parse({"many", "[a,b]", "[", "", "--number", "3", "{}"}).outcome, Outcome::kRun);
  EXPECT_EQ(small.many, (Words{"[a,b]", "[", "", "{}"}));
  EXPECT_EQ(small.number, 3);
}

TEST(CommandLine, NamesThatBeginWithADashStandAfterTwoDashes) {
  Small small;
  EXPECT_EQ(small.line.Parse({"many", "--", "-x", "--json"}).outcome, Outcome::kRun);
  EXPECT_EQ(small.many, (Words{"-x", "--json"}));
  EXPECT_FALSE(small.json);
}

TEST(CommandLine, WhatFollowsTheDashesIsHandedOnAsItIs) {
  Small small;
  const Words command = {"sh", "-c", "exit 3", "--json", "--", "[a,b]", "", "--help"};
  Words args = {"--json", "rest", "--"};
  args.insert(args.end(), command.begin(), command.end());
  EXPECT_EQ(small.line.Parse(args).outcome, Outcome::kRun);
  EXPECT_EQ(small.rest, command);
  EXPECT_TRUE(small.json);
}

TEST(CommandLine, ACommandMayTakeAllThatFollowsIt) {
  Small small;
  EXPECT_EQ(small.line.Parse({"--socket", "all", "all", "--socket", "/y", "--x=1", "--", "many"}).outcome,
            Outcome::kRun);
  EXPECT_EQ(small.all, (Words{"--socket", "/y", "--x=1", "--", "many"}));
  EXPECT_EQ(small.text, "all") << "the value of an option is no command";
  EXPECT_EQ(Small().line.Parse({"all", "--help"}).outcome, Outcome::kHelp);
}

TEST(CommandLine, HelpAndVersionComeFirst) {
  EXPECT_EQ(Fixture().Parse({"--help"}).outcome, Outcome::kHelp);
  EXPECT_EQ(Fixture().Parse({"--version"}).outcome, Outcome::kVersion);
  const auto parsed = Fixture().Parse({"put", "--help"});  // its arguments are missing
  EXPECT_EQ(parsed.outcome, Outcome::kHelp);
  EXPECT_EQ(parsed.command, "put");
}

TEST(Help, EveryCommandTeachesWithAnExample) {
  const ProgramModel model = Fixture().line->Model();
  EXPECT_GE(model.commands.size(), 15u);
  const std::string overview = ProgramHelp(model, 80);
  for (const CommandModel& command : model.commands) {
    EXPECT_FALSE(command.examples.empty()) << command.name;
    EXPECT_NE(overview.find("  " + command.name + " "), std::string::npos) << command.name;
    const std::string help = CommandHelp(model, command, 80);
    for (const ExampleModel& example : command.examples) {
      EXPECT_NE(example.line.find("tensorctl " + command.name), std::string::npos) << example.line;
      EXPECT_NE(help.find("$ " + example.line), std::string::npos);
    }
    for (const OptionModel& option : command.options) {
      EXPECT_NE(help.find(option.names.back()), std::string::npos) << option.names.back();
      EXPECT_FALSE(option.help.empty()) << option.names.back();
    }
    for (const OptionModel& option : model.options)
      EXPECT_NE(help.find(option.names.back()), std::string::npos);
  }
  EXPECT_EQ(overview.find("__"), std::string::npos) << "hidden commands";
}

TEST(Help, LinesOfProseFitTheTerminal) {
  const ProgramModel model = Fixture().line->Model();
  for (const CommandModel& command : model.commands) {
    std::string help = CommandHelp(model, command, 80);
    help.resize(help.find("\nExamples:"));  // a command line is not broken
    for (size_t begin = 0; begin < help.size();) {
      const size_t end = std::min(help.find('\n', begin), help.size());
      EXPECT_LE(DisplayWidth(help.substr(begin, end - begin)), 80) << help.substr(begin, end - begin);
      begin = end + 1;
    }
  }
}

}  // namespace
}  // namespace tensorbroker::cli
