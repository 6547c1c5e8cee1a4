// tensorctl doctor
#include <fmt/format.h>
#include <unistd.h>

#include "tensorbroker/cli/commands.h"
#include "tensorbroker/cli/context.h"
#include "tensorbroker/cli/doctor.h"
#include "tensorbroker/cli/host_facts.h"
#include "tensorbroker/cli/json.h"
#include "tensorbroker/cli/text.h"
#include "tensorbroker/client/inspector.h"
#include "tensorbroker/client/locate.h"
#include "tensorbroker/ipc/peer.h"

namespace tensorbroker::cli {
namespace {

// What the broker says; a broker that does not answer is a finding, no failure.
Status AskBroker(const Context& context, Facts& facts) {
  TB_ASSIGN_OR_RETURN(const Client client, context.Connect());
  const Inspector inspector = client.inspector();
  TB_ASSIGN_OR_RETURN(BrokerInfo info, inspector.Info());
  TB_ASSIGN_OR_RETURN(facts.sessions, inspector.Sessions(/*held=*/false));
  TB_RETURN_IF_ERROR(inspector.List(
      {.holders = true}, [&](StorageRecord storage) { facts.storages.push_back(std::move(storage)); }));
  facts.broker = std::move(info);
  return OkStatus();
}

// Whether somebody listens where the broker should be, and who: a stopped process still has its socket.
void LookForSilentBroker(const Context& context, Facts& facts) {
  constexpr Duration kSoon = std::chrono::seconds(1);
  for (const internal::SocketCandidate& candidate : internal::CandidateSockets(context.options().socket)) {
    const StatusOr<Fd> socket = internal::ConnectToBroker(candidate, kSoon);
    if (!socket.ok()) continue;
    facts.broker_silent = true;
    const StatusOr<PeerIdentity> peer = IdentifyPeer(socket->get());
    if (peer.ok()) facts.silent_pid = peer->pid;
    return;
  }
}

std::string FindingText(const Finding& finding, const Console& console) {
  const Style style = finding.severity == Severity::kError     ? Style::kRed
                      : finding.severity == Severity::kWarning ? Style::kYellow
                                                               : Style::kCyan;
  const int columns = console.width > 0 ? console.width : 100;
  std::string text = console.Paint(style, std::string(Name(finding.severity))) + " " +
                     console.Paint(Style::kBold, finding.id) + "\n";
  for (const std::string& line : Wrap(finding.evidence, columns - 2)) text += "  " + line + "\n";
  std::string lead = "  remedy: ";
  for (const std::string& line : Wrap(finding.remedy, columns - 10)) {
    text += lead + line + "\n";
    lead = "          ";
  }
  return text + "\n";
}

StatusOr<int> Doctor(Context& context) {
  Facts facts;
  facts.now_unix_ns = Clock::Real().UnixNanos();
  if (const Status asked = AskBroker(context, facts); !asked.ok()) {
    facts.broker_error = CodeName(asked.code()) + ": " + std::string(Message(asked));
    if (asked.code() == StatusCode::kDeadlineExceeded) LookForSilentBroker(context, facts);
  }
  facts.host = facts.broker ? GatherHostFacts(facts.broker->pid, facts.broker->uid)
                            : GatherHostFacts(facts.silent_pid, getuid());
  const std::vector<Finding> findings = Diagnose(facts);
  const std::vector<std::string> checked = CheckedByDoctor(facts.broker.has_value());
  const bool failed = !findings.empty() && findings.front().severity == Severity::kError;
  if (context.json()) {
    Print(DoctorJson(findings, checked));
    return failed ? 1 : 0;
  }
  std::string text;
  for (const Finding& finding : findings) text += FindingText(finding, context.console());
  if (findings.empty()) text += "nothing found\n";
  std::string list = "checked: ";
  for (const std::string& what : checked) list += (&what == checked.data() ? "" : ", ") + what;
  for (const std::string& line : Wrap(list, context.console().width > 0 ? context.console().width : 100)) {
    text += context.console().Paint(Style::kDim, line) + "\n";
  }
  Print(text);
  return failed ? 1 : 0;
}

}  // namespace

void AddDoctorCommand(CommandLine& line) {
  line.Add("doctor", "Look for what is wrong, or soon will be: each finding with its evidence and remedy")
      .Describe(
          "Looks at the broker, at what it holds, and at this machine's limits. The exit code is 1 where a "
          "finding is an "
          "error, 0 where there are none, or warnings and advice only. It changes nothing.")
      .Example("tensorctl doctor", "Why is memory not coming back?")
      .Example("tensorctl doctor --json | jq -r '.findings[].id'", "The findings' stable ids")
      .Run(Doctor);
}

}  // namespace tensorbroker::cli
