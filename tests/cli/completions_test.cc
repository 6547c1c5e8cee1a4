#include <gtest/gtest.h>

#include "tensorbroker/cli/app.h"
#include "tensorbroker/cli/model.h"

namespace tensorbroker::cli {
namespace {

ProgramModel Model() {
  GlobalOptions options;
  return MakeCommandLine(&options)->Model();
}

// Every command, and every option in `spelling` of its name, is in `text`.
void ExpectNamesAll(const std::string& text, const ProgramModel& model,
                    const std::function<std::string(const std::string&)>& spelling) {
  const auto expect_options = [&](const std::vector<OptionModel>& options) {
    for (const OptionModel& option : options) {
      for (const std::string& name : option.names) {
        EXPECT_NE(text.find(spelling(name)), std::string::npos) << name;
      }
    }
  };
  expect_options(model.options);
  for (const CommandModel& command : model.commands) {
    EXPECT_NE(text.find(command.name), std::string::npos) << command.name;
    expect_options(command.options);
  }
}

std::string Same(const std::string& name) { return name; }

TEST(Generated, BashAndZshNameEveryCommandAndOption) {
  const ProgramModel model = Model();
  ExpectNamesAll(BashCompletion(model), model, Same);
  ExpectNamesAll(ZshCompletion(model), model, Same);
}

TEST(Generated, FishNamesEveryCommandAndOption) {
  const ProgramModel model = Model();
  ExpectNamesAll(FishCompletion(model), model, [](const std::string& name) {
    return name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  });
}

TEST(Generated, TheManPageNamesEveryCommandAndOption) {
  const ProgramModel model = Model();
  const std::string page = ManPage(model);
  ExpectNamesAll(page, model, [](std::string name) {
    for (size_t at = 0; (at = name.find('-', at)) != std::string::npos; at += 2) name.replace(at, 1, "\\-");
    return name;
  });
  for (const char* section : {".TH TENSORCTL 1", ".SH NAME", ".SH SYNOPSIS", ".SH EXIT STATUS"}) {
    EXPECT_NE(page.find(section), std::string::npos) << section;
  }
}

TEST(Generated, ADaemonsManPageHoldsItsHelpAsItIs) {
  const std::string page =
      ManPageFromHelp("tensorbrokerd", 8, "Options:\n  --capacity SIZE\n.dot \\ 'q\n'q\n", "0.1.0");
  EXPECT_NE(page.find(".TH TENSORBROKERD 8"), std::string::npos);
  EXPECT_NE(page.find("\n  \\-\\-capacity SIZE\n\\&.dot \\e 'q\n\\&'q\n"), std::string::npos) << page;
}

}  // namespace
}  // namespace tensorbroker::cli
