// The socket's place, what a reply may say of a path, and what the machine is asked.
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tensorbroker/server/machine.h"
#include "tensorbroker/server/redact.h"
#include "tensorbroker/server/socket_place.h"
#include "tests/server/fixture.h"

namespace tensorbroker {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

class Places : public ::testing::Test {
 protected:
  Places() {
    std::string path = fs::temp_directory_path() / "tb-place-XXXXXX";
    root_ = mkdtemp(path.data());
  }
  ~Places() override { fs::remove_all(root_); }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    return stat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
  }
  std::string root_;
};

TEST_F(Places, AreMadePrivateWhateverTheUmaskIs) {  // Case S2.
  const mode_t before = umask(0);
  {
    auto place = SocketPlace::Claim(root_ + "/d/b.sock", std::nullopt);
    ASSERT_TRUE(place.ok()) << place.status();
    ASSERT_TRUE(place->Listen(std::nullopt, std::nullopt).ok());
    EXPECT_EQ(ModeOf(root_ + "/d"), 0700u);
    EXPECT_EQ(ModeOf(root_ + "/d/b.sock"), 0600u);
    EXPECT_EQ(ModeOf(root_ + "/d/b.sock.lock"), 0600u);
  }
  umask(before);
  EXPECT_TRUE(fs::is_empty(root_ + "/d")) << "socket and lock go with the place";
}

TEST_F(Places, ADirectoryThatIsMadeForAGroupIsGivenToIt) {  // Case S2.
  if (geteuid() != 0) GTEST_SKIP() << "giving a directory to another group needs root";
  const gid_t group = 4243;
  auto place = SocketPlace::Claim(root_ + "/d/b.sock", group);
  ASSERT_TRUE(place.ok()) << place.status();
  struct stat info {};
  ASSERT_EQ(stat((root_ + "/d").c_str(), &info), 0);
  EXPECT_EQ(info.st_gid, group);
  EXPECT_EQ(info.st_mode & 07777, 0750u);
}

TEST_F(Places, ADirectoryThatOthersMayWriteToIsRefused) {  // Case S5.
  for (const mode_t mode : {0777u, 0770u}) {
    ASSERT_EQ(chmod(root_.c_str(), mode), 0);
    EXPECT_EQ(CodeOf(SocketPlace::Claim(root_ + "/b.sock", std::nullopt)), StatusCode::kPermissionDenied)
        << mode;
  }
  ASSERT_EQ(chmod(root_.c_str(), 01777), 0);
  EXPECT_TRUE(SocketPlace::Claim(root_ + "/b.sock", std::nullopt).ok()) << "sticky, as /tmp is";
}

TEST_F(Places, ASecondClaimNamesThePidOfTheFirst) {  // Case F8.
  auto first = SocketPlace::Claim(root_ + "/b.sock", std::nullopt);
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(first->Listen(std::nullopt, std::nullopt).ok());
  const auto second = SocketPlace::Claim(root_ + "/b.sock", std::nullopt);
  EXPECT_EQ(CodeOf(second), StatusCode::kAlreadyExists);
  EXPECT_THAT(TextOf(second.status()), HasSubstr("already running, pid " + std::to_string(getpid())));
  EXPECT_TRUE(fs::exists(root_ + "/b.sock"));
}

TEST_F(Places, ALongPathIsAClearError) {  // Case F8.
  const auto refused = SocketPlace::Claim("/tmp/" + std::string(115, 'x'), std::nullopt);
  EXPECT_EQ(CodeOf(refused), StatusCode::kInvalidArgument);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("120"));
}

TEST_F(Places, ADirectoryThatAnybodyMayWriteToIsRefused) {  // Case S5.
  fs::create_directory(root_ + "/open");
  chmod((root_ + "/open").c_str(), 0777);
  EXPECT_EQ(CodeOf(SocketPlace::Claim(root_ + "/open/b.sock", std::nullopt)), StatusCode::kPermissionDenied);
}

TEST_F(Places, AnotherUidsDirectoryIsRefused) {  // Case S5.
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to make another uid's directory";
  fs::create_directory(root_ + "/theirs");
  ASSERT_EQ(chown((root_ + "/theirs").c_str(), 12345, 12345), 0);
  const auto refused = SocketPlace::Claim(root_ + "/theirs/b.sock", std::nullopt);
  EXPECT_EQ(CodeOf(refused), StatusCode::kPermissionDenied);
  EXPECT_THAT(TextOf(refused.status()), HasSubstr("uid 12345"));
  ASSERT_EQ(symlink((root_ + "/theirs").c_str(), (root_ + "/link").c_str()), 0);
  EXPECT_EQ(CodeOf(SocketPlace::Claim(root_ + "/link/b.sock", std::nullopt)), StatusCode::kPermissionDenied);
}

TEST_F(Places, AStaleSocketIsReplaced) {  // Case F8.
  if (const pid_t child = fork(); child == 0) {
    auto place = SocketPlace::Claim(root_ + "/b.sock", std::nullopt);
    const bool good = place.ok() && place->Listen(std::nullopt, std::nullopt).ok();
    _exit(good ? 0 : 1);  // as if killed: nothing is cleaned up
  } else {
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_EQ(status, 0);
  }
  ASSERT_TRUE(fs::exists(root_ + "/b.sock"));
  auto place = SocketPlace::Claim(root_ + "/b.sock", std::nullopt);
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_TRUE(place->Listen(std::nullopt, std::nullopt).ok());
}

TEST_F(Places, AnInstanceIsTheSameForAllSpellingsOfAPath) {
  std::string one;
  {
    auto place = SocketPlace::Claim(root_ + "/b.sock", std::nullopt);
    one = place->InstanceName();
  }
  auto place = SocketPlace::Claim(root_ + "/./b.sock", std::nullopt);
  EXPECT_EQ(place->InstanceName(), one);
  EXPECT_EQ(one.size(), 16u);
}

TEST(Redacted, MessagesKeepNoPathOfTheBrokersOwn) {  // Case S1.
  EXPECT_EQ(WithoutPaths("fallocate /dev/shm/tb-1/x: full, 3/4 of it"),
            "fallocate the Segments' filesystem: full, 3/4 of it");
  EXPECT_EQ(WithoutPaths("enlarge /dev/shm, or see /proc/sys/vm/max_map_count"),
            "enlarge /dev/shm, or see /proc/sys/vm/max_map_count");
  EXPECT_EQ(WithoutPaths("on/off and a / b"), "on/off and a / b");
}

TEST_F(Places, RemoveIpcIsWarnedOfOnlyWhereItBites) {
  EXPECT_EQ(RemoveIpcWarning(SourceKind::kShm, 1000, root_), "") << "no logind";
  fs::create_directories(root_ + "/run/systemd/seats");
  EXPECT_THAT(RemoveIpcWarning(SourceKind::kShm, 1000, root_), HasSubstr("RemoveIPC=yes"));
  EXPECT_EQ(RemoveIpcWarning(SourceKind::kShm, 999, root_), "");
  EXPECT_EQ(RemoveIpcWarning(SourceKind::kMemfd, 1000, root_), "");
  fs::create_directories(root_ + "/var/lib/systemd/linger");
  const passwd* const nobody = getpwnam("nobody");  // an ordinary uid (65534) that every machine has
  ASSERT_NE(nobody, nullptr);
  std::ofstream(root_ + "/var/lib/systemd/linger/nobody") << "";
  EXPECT_EQ(RemoveIpcWarning(SourceKind::kShm, nobody->pw_uid, root_), "");
  fs::create_directories(root_ + "/etc/systemd");
  std::ofstream(root_ + "/etc/systemd/logind.conf") << "[Login]\nRemoveIPC = no\n";
  EXPECT_EQ(RemoveIpcWarning(SourceKind::kShm, 1000, root_), "");
}

TEST(Machine, TellsFeaturesAndLimitsByName) {
  std::vector<std::string> names;
  for (const Feature& feature : ProbeFeatures()) {
    names.push_back(feature.name);
    EXPECT_EQ(feature.present, feature.note.empty()) << feature.name;
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"SO_PEERPIDFD", "pidfs", "memfd sealing", "hugetlbfs"}));
  const std::vector<Limit> limits = MachineLimits();
  ASSERT_EQ(limits.size(), 2u);
  EXPECT_GT(limits[0].used, 2);
  EXPECT_GE(limits[0].value, limits[0].used);
  EXPECT_GT(limits[1].value, 0);
}

}  // namespace
}  // namespace tensorbroker
