#include "client/agent/verbs/start_lab.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

class FindLabTest : public ::testing::Test {
 protected:
  // A folder with a kerf-lab that may be run, or not.
  std::string MakeFolder(const std::string& name, bool may_be_run) {
    const std::string folder = folder_ / name;
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/kerf-lab") << "x";
    if (may_be_run) {
      std::filesystem::permissions(folder + "/kerf-lab", std::filesystem::perms::owner_all);
    }
    return folder;
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(FindLabTest, BesideGoesBeforePath) {
  const std::string beside = MakeFolder("beside", true);
  const std::string other = MakeFolder("other", true);
  EXPECT_EQ(FindLab(beside + "/", other), beside + "/kerf-lab");
  EXPECT_EQ(FindLab(folder_ / "", other), other + "/kerf-lab");
  EXPECT_EQ(FindLab("", other), other + "/kerf-lab");
}

TEST_F(FindLabTest, TheFirstOfPathThatCanBeRunIsTaken) {
  const std::string no_program = MakeFolder("no-program", false);
  const std::string first = MakeFolder("first", true);
  const std::string second = MakeFolder("second", true);
  const std::string a_folder = folder_ / "a-folder";
  std::filesystem::create_directories(a_folder + "/kerf-lab");
  EXPECT_EQ(
      FindLab(no_program + "/", Cat(no_program, ":", a_folder, ":/none:", first, ":", second)),
      first + "/kerf-lab");
}

TEST_F(FindLabTest, NotInTheCurrentFolderAndNotNowhere) {
  const std::string here = MakeFolder("here", true);
  std::filesystem::current_path(here);
  EXPECT_EQ(FindLab("", "::"), "");
  EXPECT_EQ(FindLab("", ""), "");
  EXPECT_EQ(FindLab("/none/", "/none:/neither"), "");
}

}  // namespace
}  // namespace kerf::agent
