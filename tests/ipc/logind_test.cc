#include "tensorbroker/ipc/logind.h"

#include <gtest/gtest.h>
#include <pwd.h>

#include "tests/ipc/scratch.h"

namespace tensorbroker {
namespace {

using testing::ScratchDirectory;

TEST(Logind, TheLastGoodAssignmentInItsSectionCounts) {
  EXPECT_EQ(RemoveIpcSetting("[Login]\n#RemoveIPC=no\n;RemoveIPC=no\n"), std::nullopt);
  EXPECT_EQ(RemoveIpcSetting("[Login]\nRemoveIPC=yes\n RemoveIPC = no\n"), false);
  EXPECT_EQ(RemoveIpcSetting("[Login]\nRemoveIPC=no\nRemoveIPC=perhaps\n"), false);
  EXPECT_EQ(RemoveIpcSetting("[Login]\nRemoveIPC=no\n[Other]\nRemoveIPC=yes\n"), false);
  EXPECT_EQ(RemoveIpcSetting("RemoveIPC=no"), std::nullopt) << "outside of a section systemd ignores it";
  EXPECT_EQ(RemoveIpcSetting("[Login]\nremoveipc=no"), std::nullopt) << "keys have a case";
  EXPECT_EQ(RemoveIpcSetting("[Login]\r\nRemoveIPC=No\r\n"), false) << "values have none";
  for (const char* word : {"1", "yes", "Y", "true", "t", "on"}) {
    EXPECT_EQ(RemoveIpcSetting(std::string("[Login]\nRemoveIPC=") + word), true) << word;
  }
  for (const char* word : {"0", "no", "N", "false", "f", "off"}) {
    EXPECT_EQ(RemoveIpcSetting(std::string("[Login]\nRemoveIPC=") + word), false) << word;
  }
}

TEST(Logind, WithoutItNothingIsRemovedAndWithoutAFileAllIs) {
  const ScratchDirectory root;
  EXPECT_EQ(RemoveIpc(root.path()), std::nullopt);
  root.Write("run/systemd/seats/seat0", "");
  EXPECT_EQ(RemoveIpc(root.path()), true);
}

TEST(Logind, DropInsFollowInOrderOfTheirNamesAndEtcHidesTheOthers) {
  const ScratchDirectory root;
  root.Write("run/systemd/seats/seat0", "");
  root.Write("usr/lib/systemd/logind.conf", "[Login]\nRemoveIPC=no\n");
  EXPECT_EQ(RemoveIpc(root.path()), false);
  root.Write("etc/systemd/logind.conf", "[Login]\n");
  EXPECT_EQ(RemoveIpc(root.path()), true) << "the first file that is there is the one";
  root.Write("usr/lib/systemd/logind.conf.d/50-vendor.conf", "[Login]\nRemoveIPC=no\n");
  EXPECT_EQ(RemoveIpc(root.path()), false);
  root.Write("run/systemd/logind.conf.d/60-late.conf", "[Login]\nRemoveIPC=yes\n");
  EXPECT_EQ(RemoveIpc(root.path()), true);
  root.Write("etc/systemd/logind.conf.d/60-late.conf", "");
  EXPECT_EQ(RemoveIpc(root.path()), false);
  root.Write("etc/systemd/logind.conf.d/99.txt", "[Login]\nRemoveIPC=yes\n");
  EXPECT_EQ(RemoveIpc(root.path()), false) << "no .conf";
}

TEST(Logind, ALingeringUserHasAFileOfItsName) {
  const ScratchDirectory root;
  const passwd* const nobody = getpwnam("nobody");  // an ordinary uid (65534) that every machine has
  ASSERT_NE(nobody, nullptr);
  const uid_t uid = nobody->pw_uid;
  EXPECT_FALSE(Lingers(uid, root.path()));
  root.Write("var/lib/systemd/linger/" + std::to_string(uid), "");
  EXPECT_FALSE(Lingers(uid, root.path())) << "by name, not by number";
  root.Write("var/lib/systemd/linger/nobody", "");
  EXPECT_TRUE(Lingers(uid, root.path()));
  EXPECT_FALSE(Lingers(uid_t{4'000'000'000}, root.path())) << "nobody's uid";
  EXPECT_TRUE(IsSystemUser(999));
  EXPECT_FALSE(IsSystemUser(1000));
}

}  // namespace
}  // namespace tensorbroker
