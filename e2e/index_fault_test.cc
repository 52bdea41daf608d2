// A kerfd whose index is taken, damaged, or on a disk that is full: it says so, in words that help.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "e2e/world.h"

namespace kerf::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class IndexFaultTest : public testing::Test {
 protected:
  // A kerfd on the same data that must not start.
  Completed FailToStart() {
    return world_.Run({BuiltProgram("server/kerfd"), "--listen", "unix:server/second.sock",
                       "--data-dir", "server/data"});
  }

  World world_;
};

TEST_F(IndexFaultTest, TwoServersOnOneIndex) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  const Completed second = FailToStart();
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, AllOf(HasSubstr("server/data/index"), HasSubstr("already open"),
                                HasSubstr("stop the other kerfd")));
  EXPECT_FALSE(std::filesystem::exists(world_ / "server/second.sock"));
  // The first has not suffered.
  WriteText(world_ / "file", "text");
  world_.Backup({"file"});
}

TEST_F(IndexFaultTest, ADamagedIndexIsNotServed) {
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  WriteText(world_ / "file", "text");
  world_.Backup({"file"});
  world_.StopServer();
  for (const auto& file : std::filesystem::directory_iterator(world_ / "server/data/index")) {
    const std::string name = file.path().filename();
    if (name.rfind("MANIFEST", 0) == 0) std::filesystem::resize_file(file.path(), 10);
  }
  const Completed start = FailToStart();
  EXPECT_EQ(start.exit_code, 1);
  EXPECT_THAT(start.err, AllOf(HasSubstr("server/data/index"), HasSubstr("delete this folder")));
  // It is told the truth: after that all is well.
  std::filesystem::remove_all(world_ / "server/data/index");
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(world_.Backup({"file", "--force"})["files"], 1);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
}

TEST_F(IndexFaultTest, AFullDiskIsToldToTheAgentAndLosesNothing) {
  std::string content(6'000'000, '\0');
  Random(4).Fill({reinterpret_cast<std::uint8_t*>(content.data()), content.size()});
  WriteText(world_ / "file", content);
  // No file of it may grow beyond some kilobytes, which the entries of this one pass.
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  const rlimit limit{16 * 1024, 16 * 1024};
  ASSERT_EQ(prlimit(world_.server().pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  // The snapshot is whole, and exit code 0 says so.
  EXPECT_NE(world_.Backup({"file"})["index_warning"], "");
  EXPECT_FALSE(world_.server().HasEnded());
  world_.StartServer();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(world_.Backup({"file"})["files"], 1);
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
}

}  // namespace
}  // namespace kerf::e2e
