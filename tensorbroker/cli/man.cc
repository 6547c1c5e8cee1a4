// Manual pages, from a program's model or from its --help.
#include <fmt/format.h>

#include "tensorbroker/cli/model.h"

namespace tensorbroker::cli {
namespace {

// `text` so that roff prints it as it is: no backslash, no dash that becomes a hyphen, no leading dot or quote.
std::string Roff(const std::string& text) {
  std::string escaped;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) escaped += "\\&";
    line_start = c == '\n';
    if (c == '\\') {
      escaped += "\\e";
    } else if (c == '-') {
      escaped += "\\-";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string Upper(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return text;
}

std::string Title(const std::string& name, int section, const std::string& version) {
  return fmt::format(".TH {} {} \"\" \"tensorbroker {}\" \"tensorbroker\"\n", Roff(Upper(name)), section,
                     version);
}

std::string Options(const std::vector<OptionModel>& options) {
  std::string page;
  for (const OptionModel& option : options) {
    std::string names;
    for (const std::string& name : option.names)
      names += fmt::format("{}\\fB{}\\fR", names.empty() ? "" : ", ", Roff(name));
    if (!option.value.empty()) names += fmt::format(" \\fI{}\\fR", Roff(option.value));
    page += fmt::format(".TP\n{}\n{}", names, Roff(option.help));
    if (!option.choices.empty()) page += Roff(fmt::format(" ({})", fmt::join(option.choices, ", ")));
    page += ".\n";
  }
  return page;
}

std::string Paragraphs(const std::string& paragraphs) {
  std::string page;
  for (const char c : Roff(paragraphs)) page += c == '\n' ? std::string("\n.PP\n") : std::string(1, c);
  return page + "\n";
}

}  // namespace

std::string ManPage(const ProgramModel& program) {
  std::string page = Title(program.name, 1, program.version);
  page += fmt::format(".SH NAME\n{} \\- {}\n", Roff(program.name), Roff(program.summary));
  page += fmt::format(".SH SYNOPSIS\n\\fB{}\\fR \\fICOMMAND\\fR [arguments] [options]\n", Roff(program.name));
  page += ".SH DESCRIPTION\n" + Paragraphs(program.description);
  page += ".SH COMMANDS\n";
  for (const CommandModel& command : program.commands) {
    page += fmt::format(".SS {} {}\n{}.\n", Roff(program.name), Roff(Usage(command)), Roff(command.summary));
    if (!command.description.empty()) page += ".PP\n" + Paragraphs(command.description);
    for (const ArgumentModel& argument : command.arguments) {
      page += fmt::format(".TP\n\\fI{}\\fR\n{}.\n", Roff(argument.name), Roff(argument.help));
    }
    page += Options(command.options);
    for (const ExampleModel& example : command.examples) {
      page += fmt::format(".PP\n.nf\n.RS\n$ {}\n.RE\n.fi\n{}.\n", Roff(example.line), Roff(example.help));
    }
  }
  page += ".SH OPTIONS OF EVERY COMMAND\n" + Options(program.options);
  page +=
      ".SH EXIT STATUS\n.TP\n0\nDone.\n.TP\n1\nFailed; one line on standard error says why, and with "
      "\\fB\\-\\-json\\fR an "
      "object \\fBerror\\fR on standard output.\n.TP\n2\nThe command line is wrong.\n";
  page +=
      ".SH ENVIRONMENT\n.TP\n\\fBTENSORBROKER_SOCKET\\fR\nThe broker's socket, where \\fB\\-\\-socket\\fR is "
      "not given.\n"
      ".TP\n\\fBTENSORBROKER_DAEMON\\fR\nThe tensorbrokerd that \\fBserve\\fR and \\fBrun\\fR start.\n"
      ".TP\n\\fBNO_COLOR\\fR\nNo colour, where it is not empty.\n";
  return page + ".SH SEE ALSO\n\\fBtensorbrokerd\\fR(8)\n";
}

std::string ManPageFromHelp(const std::string& name, int section, const std::string& help,
                            const std::string& version) {
  std::string page = Title(name, section, version);
  page += fmt::format(".SH NAME\n{} \\- the tensorbroker that owns the memory\n", Roff(name));
  page += fmt::format(".SH DESCRIPTION\n.nf\n{}\n.fi\n", Roff(help));
  return page + ".SH SEE ALSO\n\\fBtensorctl\\fR(1)\n";
}

}  // namespace tensorbroker::cli
