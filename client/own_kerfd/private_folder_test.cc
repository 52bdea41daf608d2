#include "client/own_kerfd/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrivateFolderTest : public ::testing::Test {
 protected:
  ~PrivateFolderTest() override { umask(umask_); }

  static mode_t ModeOf(const std::string& path) {
    struct stat facts{};
    EXPECT_EQ(stat(path.c_str(), &facts), 0) << path;
    return facts.st_mode & 07777U;
  }
  void ExpectRefused(const std::string& path, const std::string& why) const {
    const auto folder = OpenPrivateFolder(path);
    ASSERT_FALSE(folder.ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(folder.status())) << folder.status();
    EXPECT_THAT(std::string(MessageOf(folder.status())),
                AllOf(HasSubstr(why), HasSubstr("XDG_STATE_HOME"), HasSubstr("--server")));
  }

  testing::TemporaryDirectory folder_;
  const std::string path_ = folder_ / "state/kerf/kerfd";
  const mode_t umask_ = umask(022);
};

TEST_F(PrivateFolderTest, IsMadeWithThoseAboveIt) {
  umask(0);
  const auto made = OpenPrivateFolder(path_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(made->is_new);
  EXPECT_EQ(ModeOf(path_), 0700u);
  EXPECT_EQ(ModeOf(folder_ / "state"), 0700u);
  const auto again = OpenPrivateFolder(path_);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->is_new);
}

TEST_F(PrivateFolderTest, AnUmaskThatTakesAllIsNoHindrance) {
  std::filesystem::create_directories(folder_ / "state/kerf");
  umask(0777);
  const auto made = OpenPrivateFolder(path_);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(ModeOf(path_), 0700u);
}

TEST_F(PrivateFolderTest, OneThatOthersMayEnterIsRefused) {
  std::filesystem::create_directories(path_);
  for (const mode_t mode : {0755u, 0710u, 0701u, 0770u}) {
    ASSERT_EQ(chmod(path_.c_str(), mode), 0);
    ExpectRefused(path_, Cat("chmod 700 ", path_));
    EXPECT_EQ(ModeOf(path_), mode) << "it is not touched";
  }
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  EXPECT_TRUE(OpenPrivateFolder(path_).ok());
}

TEST_F(PrivateFolderTest, AFolderAboveThatEverybodyMayWriteToIsRefused) {
  std::filesystem::create_directories(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  const std::string above = folder_ / "state/kerf";
  ASSERT_EQ(chmod(above.c_str(), 0777), 0);
  ExpectRefused(path_, "everybody may write");
  // As in /tmp nobody can rename there what is another's.
  ASSERT_EQ(chmod(above.c_str(), 01777), 0);
  EXPECT_TRUE(OpenPrivateFolder(path_).ok());
}

TEST_F(PrivateFolderTest, AnyFolderAboveThatOthersCouldReplaceIsRefused) {
  std::filesystem::create_directories(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  const std::string far_above = folder_ / "state";
  // The way there may be a link: what counts is where it leads.
  std::filesystem::create_directory_symlink(far_above, folder_ / "link");
  const std::string by_link = folder_ / "link/kerf/kerfd";
  EXPECT_TRUE(OpenPrivateFolder(by_link).ok());
  ASSERT_EQ(chmod(far_above.c_str(), 0777), 0);
  ExpectRefused(path_, Cat("chmod o-w ", far_above));
  ExpectRefused(by_link, Cat("chmod o-w ", far_above));
  ASSERT_EQ(chmod(far_above.c_str(), 0755), 0);
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(chown(far_above.c_str(), 1234, 1234), 0);
  ExpectRefused(path_, "user 1234");
}

TEST_F(PrivateFolderTest, ALinkAndAFileAreRefused) {
  std::filesystem::create_directories(folder_ / "state/kerf");
  std::filesystem::create_directories(folder_ / "elsewhere");
  std::filesystem::create_directory_symlink(folder_ / "elsewhere", path_);
  ExpectRefused(path_, "cannot open");
  std::filesystem::remove(path_);
  ASSERT_EQ(mknod(path_.c_str(), S_IFREG | 0600, 0), 0);
  ExpectRefused(path_, "cannot open");
}

TEST_F(PrivateFolderTest, AnothersFolderIsRefused) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  std::filesystem::create_directories(path_);
  ASSERT_EQ(chmod(path_.c_str(), 0700), 0);
  ASSERT_EQ(chown(path_.c_str(), 1234, 1234), 0);
  ExpectRefused(path_, "user 1234");
  ASSERT_EQ(chown(path_.c_str(), 0, 0), 0);
  ASSERT_EQ(chown((folder_ / "state/kerf").c_str(), 1234, 1234), 0);
  ExpectRefused(path_, "user 1234");
}

TEST_F(PrivateFolderTest, WhereItIs) {
  setenv("XDG_STATE_HOME", "/somewhere", 1);
  EXPECT_EQ(OwnKerfdFolder().value(), "/somewhere/kerf/kerfd");
  // Which the specification says is none.
  setenv("XDG_STATE_HOME", "relative", 1);
  setenv("HOME", folder_.path().c_str(), 1);
  EXPECT_EQ(OwnKerfdFolder().value(), folder_ / ".local/state/kerf/kerfd");
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(OwnKerfdFolder().value(), folder_ / ".local/state/kerf/kerfd");
  if (geteuid() != 0) return;
  // As sudo may leave it.
  ASSERT_EQ(chown(folder_.path().c_str(), 1234, 1234), 0);
  EXPECT_EQ(OwnKerfdFolder().value(), "/root/.local/state/kerf/kerfd");
}

}  // namespace
}  // namespace kerf::agent
