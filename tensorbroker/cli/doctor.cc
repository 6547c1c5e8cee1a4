#include "tensorbroker/cli/doctor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tensorbroker/base/units.h"
#include "tensorbroker/cli/text.h"

namespace tensorbroker::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr int64_t kSmallShmBytes = 256 * kMiB;    // containers have 64 MiB unless told otherwise
constexpr int64_t kLargeStorageBytes = 1 * kMiB;  // below, a view that keeps it is not worth a word
constexpr int64_t kSmallViewParts = 10;           // a name that shows under a tenth of its Storage
constexpr size_t kHoardedStorages = 100;          // without a name, by one process
constexpr double kHoardedPart = 0.25;             // of the capacity
constexpr double kNearlyFull = 0.90;
constexpr int64_t kOldInFlightNs = 5 * 60 * 1000000000LL;
constexpr int64_t kHugePageStorageBytes = 64 * kMiB;  // from here on page faults are seen
constexpr int64_t kComfortableFds = 1024;
constexpr int64_t kUsualMaps = 65530;  // the kernel's default for vm.max_map_count
constexpr size_t kExamples = 3;        // how many of a kind are named

using Findings = std::vector<Finding>;

bool IsOver(int64_t part, double share, int64_t whole) {
  return whole > 0 && static_cast<double>(part) >= share * static_cast<double>(whole);
}

// The process as people know it: "pid 41 (loader)".
std::string Who(int32_t pid, const std::string& label) {
  return label.empty() ? fmt::format("pid {}", pid) : fmt::format("pid {} ({})", pid, Printable(label));
}

void CheckBroker(const Facts& facts, Findings& findings) {
  if (facts.broker) return;
  if (facts.broker_silent) {
    const int32_t pid = facts.silent_pid;
    findings.push_back(
        {"broker-silent", Severity::kError,
         fmt::format("a broker is there and does not answer: it is stopped or overloaded{} ({})",
                     pid > 0 ? fmt::format(", pid {}", pid) : "", Printable(facts.broker_error)),
         pid > 0 ? fmt::format("look at the process: `ps -o stat,pcpu,cmd -p {0}`; where it is stopped (T), "
                               "`kill -CONT {0}` "
                               "lets it go on",
                               pid)
                 : "look at the broker's process; where it is stopped, SIGCONT lets it go on"});
    return;
  }
  findings.push_back(
      {"no-broker", Severity::kError, Printable(facts.broker_error),
       "start one: `tensorctl serve`, or name its socket by --socket or $TENSORBROKER_SOCKET"});
}

void CheckShm(const Facts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  if (facts.broker && facts.broker->memory != "shm") return;
  if (!host.shm_size_bytes || *host.shm_size_bytes >= kSmallShmBytes) return;
  const bool broker_uses_it = facts.broker.has_value();
  findings.push_back({"small-shm", broker_uses_it ? Severity::kWarning : Severity::kAdvice,
                      fmt::format("/dev/shm has {}{}", HumanBytes(*host.shm_size_bytes),
                                  broker_uses_it ? ", and this broker's Storages lie in it" : ""),
                      "raise it (`docker run --shm-size=8g`, or `mount -o remount,size=8g /dev/shm`), or "
                      "start the broker with "
                      "--memory=memfd, which it does not bind"});
}

void CheckLeftovers(const Facts& facts, Findings& findings) {
  for (const Leftover& left : facts.host.leftovers) {
    findings.push_back(
        {"dead-instance", Severity::kAdvice,
         fmt::format("{} has {} in {} file{} of a broker that has died", Printable(left.directory),
                     HumanBytes(left.bytes), left.files, left.files == 1 ? "" : "s"),
         fmt::format(
             "the next broker of that instance (of an embedded one: any broker of this user in shm) removes "
             "them as it starts, or `rm -r {}` does: processes that map them keep the bytes",
             Printable(left.directory))});
  }
}

void CheckRemoveIpc(const Facts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  if (!host.remove_ipc.value_or(false) || host.uid_is_system || host.uid_lingers) return;
  if (facts.broker && facts.broker->memory == "memfd") return;
  findings.push_back(
      {"remove-ipc", Severity::kWarning,
       fmt::format(
           "logind has RemoveIPC=yes{}: at the user's last logout it deletes the user's files in /dev/shm",
           facts.broker ? fmt::format(", and the broker runs as user {}", facts.broker->uid) : ""),
       "`loginctl enable-linger`, or RemoveIPC=no in /etc/systemd/logind.conf, or run the broker as a system "
       "user"});
}

void CheckDescriptors(const Facts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  const char* const remedy = "raise it: `ulimit -n 65536` before the start, or LimitNOFILE= in the unit";
  if (host.broker_fd_limit && host.broker_fds &&
      IsOver(*host.broker_fds, kNearlyFull, *host.broker_fd_limit)) {
    findings.push_back(
        {"broker-fds", Severity::kError,
         fmt::format("the broker has {} of {} file descriptors open; at the limit it refuses connections",
                     *host.broker_fds, *host.broker_fd_limit),
         remedy});
  } else if (host.broker_fd_limit && *host.broker_fd_limit < kComfortableFds) {
    findings.push_back({"broker-fds", Severity::kWarning,
                        fmt::format("the broker may open {} file descriptors, and needs about two a client",
                                    *host.broker_fd_limit),
                        remedy});
  }
  if (host.client_fd_limit && *host.client_fd_limit < kComfortableFds / 4) {
    findings.push_back(
        {"client-fds", Severity::kAdvice,
         fmt::format("processes started here may open {} file descriptors", *host.client_fd_limit), remedy});
  }
}

void CheckMaps(const Facts& facts, Findings& findings) {
  if (!facts.host.max_map_count) return;
  const int64_t limit = *facts.host.max_map_count;
  const SessionRecord* most = nullptr;
  for (const SessionRecord& session : facts.sessions) {
    if (most == nullptr || session.storages > most->storages) most = &session;
  }
  const char* const remedy = "`sysctl vm.max_map_count=1048576`, or put more tensors into one Storage";
  if (most != nullptr && IsOver(most->storages, 0.5, limit)) {
    const bool near = IsOver(most->storages, kNearlyFull, limit);
    findings.push_back({"max-map-count", near ? Severity::kError : Severity::kWarning,
                        fmt::format("{} holds {} Storages, a mapping each, and vm.max_map_count is {}",
                                    Who(most->pid, most->label), most->storages, limit),
                        remedy});
  } else if (limit < kUsualMaps) {
    findings.push_back(
        {"max-map-count", Severity::kAdvice,
         fmt::format("vm.max_map_count is {}, under the kernel's default {}", limit, kUsualMaps), remedy});
  }
}

// A small view keeps a large Storage alive.
void CheckSmallViews(const Facts& facts, Findings& findings) {
  for (const StorageRecord& storage : facts.storages) {
    if (storage.size_bytes <= kLargeStorageBytes || storage.names.empty()) continue;
    const NameBinding* widest = nullptr;
    for (const NameBinding& binding : storage.names) {
      if (widest == nullptr || binding.header.nbytes() > widest->header.nbytes()) widest = &binding;
    }
    if (widest->header.nbytes() >= storage.size_bytes / kSmallViewParts) continue;
    std::string others;
    if (storage.names.size() > 1) others = fmt::format(" (and {} more names)", storage.names.size() - 1);
    findings.push_back({"small-view", Severity::kAdvice,
                        fmt::format("{}{} shows {} and keeps a Storage of {} alive ({})",
                                    Printable(widest->name), others, HumanBytes(widest->header.nbytes()),
                                    HumanBytes(storage.size_bytes), ToString(storage.id)),
                        fmt::format("publish a copy of the view instead: `view.Clone()` has {}",
                                    HumanBytes(widest->header.nbytes()))});
  }
}

// Storages without a name that one process keeps: a list that grows, a cache without an end.
void CheckHoards(const Facts& facts, Findings& findings) {
  struct Hoard {
    std::string label;
    size_t storages = 0;
    int64_t bytes = 0;
  };
  std::map<int32_t, Hoard> hoards;  // by pid
  for (const StorageRecord& storage : facts.storages) {
    if (!storage.names.empty()) continue;
    std::map<int32_t, const Holder*> holders;
    for (const Holder& holder : storage.holders) holders.emplace(holder.pid, &holder);
    if (holders.size() != 1) continue;
    Hoard& hoard = hoards[holders.begin()->first];
    hoard.label = holders.begin()->second->label;
    ++hoard.storages;
    hoard.bytes += storage.reserved_bytes;
  }
  const int64_t capacity = facts.broker ? facts.broker->capacity_bytes : 0;
  for (const auto& [pid, hoard] : hoards) {
    const bool much =
        capacity > 0 && static_cast<double>(hoard.bytes) > kHoardedPart * static_cast<double>(capacity);
    if (hoard.storages < kHoardedStorages && !much) continue;
    findings.push_back(
        {"hoarder", much ? Severity::kWarning : Severity::kAdvice,
         fmt::format(
             "{} alone holds {} Storage{} without a name, {}{}", Who(pid, hoard.label), hoard.storages,
             hoard.storages == 1 ? "" : "s", HumanBytes(hoard.bytes),
             capacity > 0 ? fmt::format(" ({} of the capacity)", HumanPercent(hoard.bytes, capacity)) : ""),
         fmt::format("see `tensorctl ls --holder {} --sort bytes`; drop tensors there, or end the process",
                     pid)});
  }
}

void CheckCapacity(const Facts& facts, Findings& findings) {
  if (!facts.broker) return;
  const BrokerInfo& broker = *facts.broker;
  if (IsOver(broker.used_bytes, kNearlyFull, broker.capacity_bytes)) {
    const bool full = IsOver(broker.used_bytes, 0.99, broker.capacity_bytes);
    findings.push_back(
        {"capacity", full ? Severity::kError : Severity::kWarning,
         fmt::format("{} of {} are used ({}); the capacity is bound by {}", HumanBytes(broker.used_bytes),
                     HumanBytes(broker.capacity_bytes),
                     HumanPercent(broker.used_bytes, broker.capacity_bytes),
                     Printable(broker.capacity_bound_by)),
         "`tensorctl who` shows who holds most; remove names with `tensorctl rm`, or raise what binds it"});
  }
  const int64_t left = broker.capacity_bytes - broker.used_bytes;
  if (broker.filesystem_size_bytes > 0 && broker.filesystem_free_bytes < left / 2) {
    findings.push_back(
        {"filesystem-full", Severity::kWarning,
         fmt::format("the broker may still give out {}, but the file system behind it has {} free: others "
                     "fill it",
                     HumanBytes(left), HumanBytes(broker.filesystem_free_bytes)),
         "see what else lies there (`du -sh /dev/shm/*`), or give the broker a tmpfs of its own by "
         "--shm-dir"});
  }
  if (broker.quarantined_bytes > 0) {
    std::string sessions;
    for (const SessionRecord& session : facts.sessions) {
      if (session.quarantined) sessions += (sessions.empty() ? "" : ", ") + Who(session.pid, session.label);
    }
    findings.push_back(
        {"quarantined", Severity::kWarning,
         fmt::format("{} are quarantined: {} dead, but a forked child may still touch the bytes",
                     HumanBytes(broker.quarantined_bytes),
                     sessions.empty() ? "their process is" : sessions + " is"),
         "end the children that were left behind; the bytes come back within 100 ms of the last one's end"});
  }
  for (const std::string& warning : broker.warnings) {
    findings.push_back(
        {"broker-warning", Severity::kWarning, Printable(warning), "see the broker's log and its `--help`"});
  }
}

void CheckInFlight(const Facts& facts, Findings& findings) {
  size_t count = 0;
  int64_t bytes = 0;
  std::string examples;
  for (const StorageRecord& storage : facts.storages) {
    if (storage.in_flight_from_pids.empty() || facts.now_unix_ns - storage.created_unix_ns < kOldInFlightNs)
      continue;
    if (storage.state != StorageState::kInFlight) continue;
    if (++count <= kExamples) {
      examples += fmt::format("{}{} from pid {}", count == 1 ? "" : ", ", ToString(storage.id),
                              fmt::join(storage.in_flight_from_pids, "/"));
    }
    bytes += storage.reserved_bytes;
  }
  if (count == 0) return;
  findings.push_back(
      {"old-in-flight", Severity::kAdvice,
       fmt::format("{} Storage{}, {}, under way for over 5 min, kept only by a handle that nobody loaded: {}",
                   count, count == 1 ? "" : "s", HumanBytes(bytes), examples),
       "load the handles or drop the queue they lie in; each is freed transfer_ttl after its sender's end"});
}

void CheckSwap(const Facts& facts, Findings& findings) {
  const HostFacts& host = facts.host;
  if (!host.swap_total_bytes || *host.swap_total_bytes == 0 || host.swap_used_bytes.value_or(0) < 16 * kMiB)
    return;
  if (facts.broker && facts.broker->memory == "hugetlbfs") return;
  findings.push_back(
      {"swap", Severity::kAdvice,
       fmt::format("{} of {} swap are in use, and shared memory may be swapped out",
                   HumanBytes(*host.swap_used_bytes), HumanBytes(*host.swap_total_bytes)),
       "`swapoff -a`, a --shm-dir on a tmpfs mounted with noswap (Linux 6.4), or --memory=hugetlbfs"});
}

void CheckHugePages(const Facts& facts, Findings& findings) {
  if (!facts.broker || facts.broker->memory == "hugetlbfs") return;
  const bool shm = facts.broker->memory == "shm";
  const std::string& set = shm ? facts.host.shm_mount_huge_pages : facts.host.shmem_huge_pages;
  const bool off = shm ? set.empty() || set == "never" : set == "never" || set == "deny";
  if (!off) return;
  size_t count = 0;
  int64_t bytes = 0;
  for (const StorageRecord& storage : facts.storages) {
    if (storage.size_bytes < kHugePageStorageBytes || storage.huge_pages) continue;
    ++count;
    bytes += storage.size_bytes;
  }
  if (count == 0) return;
  findings.push_back(
      {"huge-pages-off", Severity::kAdvice,
       fmt::format("{} Storage{} of 64 MiB or more, {} in all, in small pages ({})", count,
                   count == 1 ? " is" : "s are", HumanBytes(bytes),
                   shm ? "the mount has no huge= option" : "shmem_enabled is " + set),
       shm ? "`mount -o remount,huge=advise /dev/shm`: a first touch of 1 GiB is then some 30 times faster"
           : "`echo advise > /sys/kernel/mm/transparent_hugepage/shmem_enabled`: a first touch is then far "
             "faster"});
}

}  // namespace

std::string_view Name(Severity severity) {
  static constexpr std::string_view kNames[] = {"advice", "warning", "error"};
  return kNames[static_cast<int>(severity)];
}

std::vector<Finding> Diagnose(const Facts& facts) {
  Findings findings;
  for (const auto check :
       {CheckBroker, CheckCapacity, CheckShm, CheckLeftovers, CheckRemoveIpc, CheckDescriptors, CheckMaps,
        CheckHoards, CheckSmallViews, CheckInFlight, CheckSwap, CheckHugePages}) {
    check(facts, findings);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const Finding& a, const Finding& b) { return a.severity > b.severity; });
  return findings;
}

std::vector<std::string> CheckedByDoctor(bool with_broker) {
  std::vector<std::string> checked = {"that a broker answers",
                                      "the size of /dev/shm",
                                      "what dead brokers left there",
                                      "logind's RemoveIPC",
                                      "file descriptor limits",
                                      "vm.max_map_count",
                                      "swap",
                                      "huge pages for large Storages"};
  if (with_broker) {
    for (const char* what : {"the capacity in use", "free bytes of the file system", "quarantined bytes",
                             "the broker's warnings", "small views that keep large Storages",
                             "processes that hoard Storages without a name", "handles under way for long"}) {
      checked.emplace_back(what);
    }
  }
  return checked;
}

}  // namespace tensorbroker::cli
