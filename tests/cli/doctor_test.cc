#include "tensorbroker/cli/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/cli/records.h"

namespace tensorbroker::cli {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;

Facts Healthy() {
  Facts facts;
  facts.broker = InfoOf(1024 * kMiB, 100 * kMiB);
  facts.now_unix_ns = kNow;
  facts.host.shm_size_bytes = 8192 * kMiB;
  facts.host.swap_total_bytes = 0;
  facts.host.broker_fd_limit = 65536;
  facts.host.broker_fds = 20;
  facts.host.client_fd_limit = 1024;
  facts.host.max_map_count = 65530;
  facts.host.shmem_huge_pages = "advise";
  return facts;
}

// The one finding, or a failure.
Finding Only(const Facts& facts) {
  const std::vector<Finding> findings = Diagnose(facts);
  EXPECT_EQ(findings.size(), 1u);
  return findings.empty() ? Finding{} : findings.front();
}

void ExpectSays(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(Doctor, AHealthyBrokerHasNoFindings) { EXPECT_EQ(Diagnose(Healthy()), std::vector<Finding>{}); }

TEST(Doctor, WhatCouldNotBeReadIsNoFinding) {
  Facts facts;
  facts.broker = InfoOf(1024 * kMiB, 0);
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{});
}

TEST(Doctor, NoBrokerIsAnErrorWithItsReason) {
  Facts facts = Healthy();
  facts.broker.reset();
  facts.broker_error = "NOT_FOUND: no socket at /tmp/x\x1b[2J";
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.id, "no-broker");
  EXPECT_EQ(finding.severity, Severity::kError);
  EXPECT_EQ(finding.evidence, "NOT_FOUND: no socket at /tmp/x\\x1b[2J");
  ExpectSays(finding.remedy, "tensorctl serve");
}

TEST(Doctor, ABrokerThatDoesNotAnswerIsNotMissing) {
  Facts facts = Healthy();
  facts.broker.reset();
  facts.broker_error = "DEADLINE_EXCEEDED: Connect";
  facts.broker_silent = true;
  facts.silent_pid = 41;
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.id, "broker-silent");
  EXPECT_EQ(finding.severity, Severity::kError);
  ExpectSays(finding.evidence, "stopped or overloaded, pid 41 (DEADLINE_EXCEEDED: Connect)");
  ExpectSays(finding.remedy, "kill -CONT 41");
  facts.silent_pid = 0;
  ExpectSays(Only(facts).evidence, "stopped or overloaded (DEADLINE");
}

// Case C7, as an operator sees it.
TEST(Doctor, ASmallShmIsAWarningOnlyWhereStoragesLieInIt) {
  Facts facts = Healthy();
  facts.host.shm_size_bytes = 64 * kMiB;
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{}) << "memfd is not bound by it";
  facts.broker->memory = "shm";
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.id, "small-shm");
  EXPECT_EQ(finding.severity, Severity::kWarning);
  ExpectSays(finding.evidence, "64.0 MiB");
  ExpectSays(finding.remedy, "--memory=memfd");
}

TEST(Doctor, WhatADeadBrokerLeftIsAdviceWithItsDirectoryAndSize) {
  Facts facts = Healthy();
  facts.host.leftovers = {{"/dev/shm/tensorbroker-0-train", 3, 12 * kMiB}};
  EXPECT_EQ(Only(facts).id, "dead-instance");
  EXPECT_EQ(Only(facts).severity, Severity::kAdvice);
  ExpectSays(Only(facts).evidence, "/dev/shm/tensorbroker-0-train has 12.0 MiB in 3 files");
  ExpectSays(Only(facts).remedy, "rm -r /dev/shm/tensorbroker-0-train");
}

TEST(Doctor, RemoveIpcThreatensOnlyFilesOfALoginUser) {
  Facts facts = Healthy();
  facts.broker->memory = "shm";
  facts.broker->uid = 1000;
  facts.host.remove_ipc = true;
  EXPECT_EQ(Only(facts).id, "remove-ipc");
  ExpectSays(Only(facts).remedy, "enable-linger");
  Facts lingers = facts;
  lingers.host.uid_lingers = true;
  Facts system = facts;
  system.host.uid_is_system = true;
  Facts memfd = facts;
  memfd.broker->memory = "memfd";
  Facts off = facts;
  off.host.remove_ipc = false;
  for (const Facts& spared : {lingers, system, memfd, off})
    EXPECT_EQ(Diagnose(spared), std::vector<Finding>{});
}

TEST(Doctor, FileDescriptorsNearTheirLimitAreAnError) {
  Facts facts = Healthy();
  facts.host.broker_fd_limit = 256;
  facts.host.broker_fds = 20;
  EXPECT_EQ(Only(facts).severity, Severity::kWarning);
  facts.host.broker_fds = 240;
  EXPECT_EQ(Only(facts).severity, Severity::kError);
  EXPECT_EQ(Only(facts).id, "broker-fds");
  ExpectSays(Only(facts).evidence, "240 of 256");
}

// Case C2, as an operator sees it.
TEST(Doctor, MappingsNearTheirLimitNameItAndTheProcess) {
  Facts facts = Healthy();
  SessionRecord session;
  session.pid = 77;
  session.label = "cache";
  session.storages = 60'000;
  facts.sessions = {session};
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.id, "max-map-count");
  EXPECT_EQ(finding.severity, Severity::kError);
  ExpectSays(finding.evidence, "pid 77 (cache)");
  ExpectSays(finding.evidence, "vm.max_map_count is 65530");
}

// Case H6.
TEST(Doctor, ASmallViewThatKeepsALargeStorageIsAdvice) {
  Facts facts = Healthy();
  facts.storages = {StorageOf(1, 4'000'000, {BindingOf("row", {1, 1000})})};
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.id, "small-view");
  EXPECT_EQ(finding.severity, Severity::kAdvice);
  EXPECT_EQ(finding.evidence, "row shows 3.9 KiB and keeps a Storage of 3.8 MiB alive (9f3a61c204d7be15-1)");
  ExpectSays(finding.remedy, "Clone");
}

TEST(Doctor, AViewBesideANameOfTheWholeIsNone) {
  Facts facts = Healthy();
  facts.storages = {StorageOf(1, 4'000'000, {BindingOf("row", {1, 1000}), BindingOf("all", {1000, 1000})}),
                    StorageOf(2, 400'000, {BindingOf("small", {1})}),
                    StorageOf(3, 4'000'000, {BindingOf("tenth", {100'000})})};
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{});
}

TEST(Doctor, AHundredStoragesWithoutANameByOneProcessAreAHoard) {
  Facts facts = Healthy();
  for (uint64_t i = 1; i <= 99; ++i) facts.storages.push_back(StorageOf(i, 4096, {}, {HolderOf(41)}));
  for (uint64_t i = 200; i <= 400; ++i) {
    facts.storages.push_back(StorageOf(i, 4096, {}, {HolderOf(41), HolderOf(42)}));  // shared
    facts.storages.push_back(
        StorageOf(i + 1000, 4096, {BindingOf("n" + std::to_string(i), {1024})}, {HolderOf(41)}));  // named
  }
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{});
  facts.storages.push_back(StorageOf(100, 4096, {}, {HolderOf(41)}));
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.id, "hoarder");
  EXPECT_EQ(finding.severity, Severity::kAdvice);
  ExpectSays(finding.evidence, "pid 41 (loader) alone holds 100 Storages without a name, 400 KiB");
}

TEST(Doctor, OneStorageOverAQuarterOfTheCapacityIsAHoardToo) {
  Facts facts = Healthy();
  facts.storages = {StorageOf(1, 256 * kMiB, {}, {HolderOf(41)})};
  facts.storages[0].huge_pages = true;
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{});
  facts.storages[0].reserved_bytes += 4096;
  EXPECT_EQ(Only(facts).severity, Severity::kWarning);
  ExpectSays(Only(facts).remedy, "--holder 41");
}

TEST(Doctor, ACapacityThatIsNearlyUsedSaysWhatBindsIt) {
  Facts facts = Healthy();
  facts.broker->used_bytes = 950 * kMiB;
  EXPECT_EQ(Only(facts).severity, Severity::kWarning);
  ExpectSays(Only(facts).evidence, "bound by --capacity");
  facts.broker->used_bytes = 1024 * kMiB;
  EXPECT_EQ(Only(facts).severity, Severity::kError);
}

TEST(Doctor, AFileSystemThatOthersFillIsAWarning) {
  Facts facts = Healthy();
  facts.broker->filesystem_size_bytes = 2048 * kMiB;
  facts.broker->filesystem_free_bytes = 100 * kMiB;
  EXPECT_EQ(Only(facts).id, "filesystem-full");
}

// Case P7, as an operator sees it.
TEST(Doctor, QuarantinedBytesNameTheDeadProcess) {
  Facts facts = Healthy();
  facts.broker->quarantined_bytes = 64 * kMiB;
  SessionRecord session;
  session.pid = 41;
  session.label = "trainer";
  session.quarantined = true;
  facts.sessions = {session};
  EXPECT_EQ(Only(facts).id, "quarantined");
  ExpectSays(Only(facts).evidence, "pid 41 (trainer) is dead");
}

TEST(Doctor, HandlesUnderWayForLongAreAdvice) {
  Facts facts = Healthy();
  facts.storages = {StorageOf(1, 4096)};
  facts.storages[0].state = StorageState::kInFlight;
  facts.storages[0].in_flight_from_pids = {41};
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{});
  facts.now_unix_ns += 6 * 60 * 1'000'000'000LL;
  EXPECT_EQ(Only(facts).id, "old-in-flight");
  ExpectSays(Only(facts).evidence, "9f3a61c204d7be15-1 from pid 41");
}

TEST(Doctor, SwapInUseAndSmallPagesAreAdvice) {
  Facts facts = Healthy();
  facts.host.swap_total_bytes = 4096 * kMiB;
  facts.host.swap_used_bytes = 500 * kMiB;
  EXPECT_EQ(Only(facts).id, "swap");
  facts = Healthy();
  facts.host.shmem_huge_pages = "never";
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{}) << "no large Storage";
  facts.storages = {StorageOf(1, 128 * kMiB, {BindingOf("w", {32, 1 << 20})})};
  EXPECT_EQ(Only(facts).id, "huge-pages-off");
  facts.storages[0].huge_pages = true;
  EXPECT_EQ(Diagnose(facts), std::vector<Finding>{});
}

TEST(Doctor, TheWorstComesFirst) {
  Facts facts = Healthy();
  facts.storages = {StorageOf(1, 4'000'000, {BindingOf("row", {1000})})};
  facts.broker->used_bytes = facts.broker->capacity_bytes;
  facts.broker->warnings = {"a Segment has vanished"};
  const std::vector<Finding> findings = Diagnose(facts);
  ASSERT_EQ(findings.size(), 3u);
  EXPECT_EQ(findings[0].id, "capacity");
  EXPECT_EQ(findings[1].id, "broker-warning");
  EXPECT_EQ(findings[2].id, "small-view");
}

TEST(Doctor, HostileLabelsAreEscapedInEvidence) {
  Facts facts = Healthy();
  facts.storages = {StorageOf(1, 4'000'000, {}, {HolderOf(41, "a\x1b[31m\nb")})};
  facts.storages[0].reserved_bytes = 900 * kMiB;
  const Finding finding = Only(facts);
  EXPECT_EQ(finding.evidence.find('\x1b'), std::string::npos);
  EXPECT_EQ(finding.evidence.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tensorbroker::cli
