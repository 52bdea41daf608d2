#include "client/cli/find_program.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

class FindProgramTest : public ::testing::Test {
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

TEST_F(FindProgramTest, BesideGoesBeforePath) {
  const std::string beside = MakeFolder("beside", true);
  const std::string other = MakeFolder("other", true);
  EXPECT_EQ(FindProgram(beside + "/", other, "kerf-lab"), beside + "/kerf-lab");
  EXPECT_EQ(FindProgram(folder_ / "", other, "kerf-lab"), other + "/kerf-lab");
  EXPECT_EQ(FindProgram("", other, "kerf-lab"), other + "/kerf-lab");
}

TEST_F(FindProgramTest, TheFirstOfPathThatCanBeRunIsTaken) {
  const std::string no_program = MakeFolder("no-program", false);
  const std::string first = MakeFolder("first", true);
  const std::string second = MakeFolder("second", true);
  const std::string a_folder = folder_ / "a-folder";
  std::filesystem::create_directories(a_folder + "/kerf-lab");
  EXPECT_EQ(FindProgram(no_program + "/",
                        Cat(no_program, ":", a_folder, ":/none:", first, ":", second), "kerf-lab"),
            first + "/kerf-lab");
}

TEST_F(FindProgramTest, NotInTheCurrentFolderAndNotNowhere) {
  const std::string here = MakeFolder("here", true);
  std::filesystem::current_path(here);
  EXPECT_EQ(FindProgram("", "::", "kerf-lab"), "");
  EXPECT_EQ(FindProgram("", ".:../here", "kerf-lab"), "");
  EXPECT_EQ(FindProgram("", "", "kerf-lab"), "");
  EXPECT_EQ(FindProgram("/none/", "/none:/neither", "kerf-lab"), "");
}

}  // namespace
}  // namespace kerf::agent
