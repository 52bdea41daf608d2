#include "client/cli/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What somebody without rights hears of `path`.
std::string HeardByAnybody(const std::string& path) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    constexpr uid_t kNobody = 65'534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(1);
    const std::string text = RefuseUnreadableConfig(path);
    _exit(write(ends[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  std::string heard(4096, '\0');
  heard.resize(static_cast<std::size_t>(std::max<ssize_t>(0, read(ends[0], heard.data(), 4096))));
  close(ends[0]);
  int state = 0;
  EXPECT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
  return heard;
}

// As `sudo -u somebody` leaves HOME to its caller.
TEST(ConfigFileTest, TheHomeOfAnotherUserIsSaidHowToMend) {
  const std::filesystem::path home =
      std::filesystem::path(testing::TempDir()) / "config_file_test_home";
  std::filesystem::create_directories(home / ".config/kerf");
  const std::string path = home / ".config/kerf/config.toml";
  std::ofstream(path) << "store = \"x\"\n";
  unsetenv("XDG_CONFIG_HOME");
  setenv("HOME", home.c_str(), 1);
  ASSERT_EQ(DefaultConfigPath(), path);
  EXPECT_EQ(RefuseUnreadableConfig(path), "");
  std::filesystem::permissions(path, std::filesystem::perms::none);
  EXPECT_THAT(HeardByAnybody(path), AllOf(HasSubstr("config.toml: Permission denied"),
                                          HasSubstr("sudo -H"), HasSubstr("KERF_CONFIG")));
  // Nor may the folder be looked into.
  std::filesystem::permissions(home / ".config", std::filesystem::perms::none);
  EXPECT_THAT(HeardByAnybody(path), HasSubstr("sudo -H"));
  std::filesystem::permissions(home / ".config", std::filesystem::perms::all);
  // Who has named a file knows whose it is.
  std::filesystem::rename(path, home / "named.toml");
  EXPECT_THAT(HeardByAnybody(home / "named.toml"),
              AllOf(HasSubstr("named.toml: "), Not(HasSubstr("sudo"))));
  EXPECT_EQ(RefuseUnreadableConfig("/dev/null"), "");
}

}  // namespace
}  // namespace kerf::agent
