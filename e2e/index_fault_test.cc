// A kerfd whose index is taken, damaged, gone, or on a disk that is full: it says so, in words that
// help, mends what it can, and is never ready while it is of no use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "e2e/watched.h"

namespace kerf::e2e {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class IndexFaultTest : public WatchedTest {
 protected:
  // A kerfd on the same data that must not start.
  Completed FailToStart() {
    return world_.Run({BuiltProgram("server/kerfd"), "--listen", "unix:server/second.sock",
                       "--data-dir", "server/data"});
  }

  std::string index_path() const { return world_ / "server/data/index"; }

  // All that it has is in table files from then on.
  void SortIndex() {
    for (int round = 0; round < 2; ++round) {
      Start();
      ASSERT_FALSE(HasFatalFailure());
      world_.StopServer();
    }
  }
  void FlipBitsOfTables() {
    int count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(index_path())) {
      if (entry.path().extension() != ".sst") continue;
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      const auto at = static_cast<std::streamoff>(entry.file_size() / 3);
      file.seekg(at);
      const char byte = static_cast<char>(file.get());
      file.seekp(at);
      file.put(static_cast<char>(byte ^ 1));
      ASSERT_TRUE(file.good());
      ++count;
    }
    ASSERT_GT(count, 0);
  }
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

// One wrong bit used to end each backup, `kerf index check` and `kerf index rebuild` for ever.
TEST_F(IndexFaultTest, ADamagedIndexIsSetAsideAndRebuilt) {
  Start();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 3'000'000, 1);
  world_.Backup({"file"});
  world_.StopServer();
  SortIndex();
  FlipBitsOfTables();
  Start();
  ASSERT_FALSE(HasFatalFailure());
  // The one that meets the damage has begun with an index that is there no more, and says so.
  Completed rebuild = world_.Kerf({"index", "rebuild"});
  if (rebuild.exit_code != 0) {
    EXPECT_THAT(rebuild.err, HasSubstr("index rebuild again"));
    rebuild = world_.Kerf({"index", "rebuild"});
  }
  EXPECT_EQ(rebuild.exit_code, 0) << rebuild.err;
  const Completed check = world_.Kerf({"index", "check"});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;
  world_.ExpectNothingNew(world_.Backup({"file", "--force"}));
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
  // Whoever looks at it later sees what has happened.
  EXPECT_THAT(world_.Kerf({"ping"}).out, HasSubstr("it is set aside in"));
  EXPECT_EQ(Readiness(), "ready\n");
  EXPECT_THAT(world_.StopServer(), AllOf(HasSubstr("was damaged"), HasSubstr("index.damaged-"),
                                         HasSubstr("kerf index rebuild")));

  // One that cannot even be opened.
  for (const auto& file : std::filesystem::directory_iterator(index_path())) {
    const std::string name = file.path().filename();
    if (name.rfind("MANIFEST", 0) == 0) std::filesystem::resize_file(file.path(), 10);
  }
  Start();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_EQ(world_.Backup({"file", "--force"})["files"], 1);
  world_.ExpectNothingNew(world_.Backup({"file", "--force"}));
  EXPECT_THAT(world_.StopServer(), HasSubstr("was damaged"));
}

TEST_F(IndexFaultTest, ALostLogIsToldOf) {
  Start();
  ASSERT_FALSE(HasFatalFailure());
  WriteText(world_ / "file", "text");
  world_.Backup({"file"});
  world_.StopServer();
  for (const auto& file : std::filesystem::directory_iterator(index_path())) {
    if (file.path().extension() == ".log") std::filesystem::remove(file.path());
  }
  Start();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_THAT(world_.Kerf({"ping"}).out, HasSubstr("has lost the last"));
  EXPECT_EQ(world_.Backup({"file", "--force"})["files"], 1);
  EXPECT_THAT(world_.StopServer(),
              AllOf(HasSubstr("has lost the last"), HasSubstr("kerf index rebuild")));
}

TEST_F(IndexFaultTest, ADiskThatRefusesIsToldToTheAgentAndLosesNothing) {
  WriteRandom("file", 6'000'000, 4);
  // No file of it may grow beyond some kilobytes, which the entries of this one pass.
  Start();
  ASSERT_FALSE(HasFatalFailure());
  rlimit before{};
  ASSERT_EQ(prlimit(world_.server().pid(), RLIMIT_FSIZE, nullptr, &before), 0);
  const rlimit limit{16 * 1024, before.rlim_max};
  ASSERT_EQ(prlimit(world_.server().pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  // The snapshot is whole, and what the index has not heard is a warning, however quiet it is to
  // be. What it waits for the index comes out of --retry-for.
  const Completed quiet = world_.Kerf({"backup", "file", "-q", "--retry-for", "1s"});
  EXPECT_EQ(quiet.exit_code, 3);
  EXPECT_EQ(quiet.out, "");
  EXPECT_THAT(quiet.err, AllOf(HasSubstr("\nkerf: warning: "),
                               HasSubstr("the server's index does not take what it is told: what "
                                         "was stored is whole")));
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
  EXPECT_TRUE(WaitUntilReadinessIs("not ready: the index takes no commits"));
  EXPECT_FALSE(world_.server().HasEnded());
  // It recovers by itself.
  ASSERT_EQ(prlimit(world_.server().pid(), RLIMIT_FSIZE, &before, nullptr), 0);
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  EXPECT_EQ(world_.Backup({"file", "--force"})["index_warning"], "");
  world_.ExpectNothingNew(world_.Backup({"file", "--force"}));
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
}

TEST_F(IndexFaultTest, AFolderThatIsRemovedIsBegunAnewOrToldOf) {
  Start();
  ASSERT_FALSE(HasFatalFailure());
  WriteText(world_ / "file", "text");
  world_.Backup({"file"});
  // At once: there is no moment at which it is not whole.
  std::filesystem::rename(index_path(), world_ / "removed");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!std::filesystem::exists(index_path() + "/CURRENT") &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  EXPECT_EQ(world_.Backup({"file", "--force"})["index_warning"], "");
  std::filesystem::rename(world_ / "server/data", world_ / "removed too");
  EXPECT_TRUE(WaitUntilReadinessIs("not ready: the index takes no commits: "));
  EXPECT_THAT(Readiness(), HasSubstr("server/data is gone"));
  world_.StopServer();
}

// The folder of the index on a disk of its own. In a mount namespace of this process and those that
// it starts, so that nothing is left of it.
class IndexDiskTest : public IndexFaultTest {
 protected:
  // Of a metric without labels; -1 if it is not there.
  double Value(const std::string& metric) {
    const std::string page = Ask("/metrics").body;
    const std::size_t at = page.find("\n" + metric + " ");
    return at == std::string::npos ? -1 : std::stod(page.substr(at + metric.size() + 2));
  }

  static void SetUpTestSuite() {
    ASSERT_EQ(unshare(CLONE_NEWNS), 0) << std::strerror(errno) << ": this test needs root";
    ASSERT_EQ(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), 0)
        << std::strerror(errno) << ": this test needs root";
  }

  void MakeDisk(const std::string& options, unsigned long flags = 0) {
    std::filesystem::create_directory(world_ / "server/data");
    ASSERT_EQ(mount("none", (world_ / "server/data").c_str(), "tmpfs", flags, options.c_str()), 0)
        << std::strerror(errno) << ": this test needs root";
  }
  void FillDisk() {
    const std::string path = world_ / "server/data/others";
    std::ofstream file(path, std::ios::binary);
    const std::vector<char> zeros(1 << 20);
    while (file.write(zeros.data(), static_cast<std::streamsize>(zeros.size())).flush()) {
    }
    // What is left is less than a write.
    for (int rest = 0; rest < 256; ++rest) {
      std::ofstream small(Cat(path, rest), std::ios::binary);
      small.write(zeros.data(), 4096);
    }
  }
  void FreeDisk() {
    for (const auto& entry : std::filesystem::directory_iterator(world_ / "server/data")) {
      if (entry.path().filename().string().starts_with("others")) {
        std::filesystem::remove(entry.path());
      }
    }
  }
};

// RocksDB ended the process at two of three starts, when its own log met the full disk.
TEST_F(IndexDiskTest, AFullDiskEndsNothing) {
  MakeDisk("size=256m");
  ASSERT_FALSE(HasFatalFailure());
  Start();
  ASSERT_FALSE(HasFatalFailure());
  WriteRandom("file", 3'000'000, 5);
  world_.Backup({"file"});
  EXPECT_EQ(Readiness(), "ready\n");
  const double few_bytes = Value("kerf_index_disk_min_free_bytes");
  EXPECT_EQ(Value("kerf_index_takes_commits"), 1);
  EXPECT_GT(Value("kerf_index_disk_free_bytes"), few_bytes);
  FillDisk();
  EXPECT_TRUE(WaitUntilReadinessIs("not ready: the index takes no commits: the disk of "));
  EXPECT_EQ(Value("kerf_index_takes_commits"), 0);
  EXPECT_LT(Value("kerf_index_disk_free_bytes"), few_bytes);
  // However often it is killed and started: it is opened with what was held back, and forgets.
  for (int round = 0; round < 3; ++round) {
    world_.server().Kill();
    Start();
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_THAT(Readiness(), StartsWith("not ready: the index takes no commits"));
    EXPECT_GT(Value("kerf_index_entries"), 0);
    EXPECT_EQ(Value("kerf_index_repositories"), 1);
  }
  EXPECT_EQ(Value("kerf_index_epoch"), 0);
  EXPECT_EQ(world_.Kerf({"gc"}).exit_code, 0);
  // What was held back is gone, too: it does not start, and says why.
  world_.server().Kill();
  FillDisk();
  for (int round = 0; round < 3; ++round) {
    const Completed start = FailToStart();
    EXPECT_EQ(start.exit_code, 1) << start.err;
    EXPECT_THAT(start.err, HasSubstr("make room there"));
  }
  FreeDisk();
  Start();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  WriteRandom("more", 3'000'000, 6);
  EXPECT_EQ(world_.Backup({"file", "more", "--force"})["index_warning"], "");
  // The same without a new start.
  FillDisk();
  EXPECT_TRUE(WaitUntilReadinessIs("not ready"));
  FreeDisk();
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  const auto last = world_.Backup({"file", "more", "--force"});
  EXPECT_EQ(last["index_warning"], "");
  // Of what tells about the files, one of which was just written.
  EXPECT_LE(last["new_bytes"], 10'000) << last;
  EXPECT_EQ(world_.Kerf({"verify", "--read-data"}).exit_code, 0);
}

TEST_F(IndexDiskTest, AReadOnlyDiskIsRefused) {
  MakeDisk("size=256m", MS_RDONLY);
  ASSERT_FALSE(HasFatalFailure());
  const Completed start = FailToStart();
  EXPECT_EQ(start.exit_code, 1);
  EXPECT_THAT(start.err, AllOf(HasSubstr("server/data"), HasSubstr("Read-only file system")));
}

TEST_F(IndexDiskTest, ADiskThatIsUnmountedIsToldOf) {
  MakeDisk("size=256m");
  ASSERT_FALSE(HasFatalFailure());
  Start();
  ASSERT_FALSE(HasFatalFailure());
  EXPECT_TRUE(WaitUntilReadinessIs("ready"));
  ASSERT_EQ(umount2((world_ / "server/data").c_str(), MNT_DETACH), 0);
  EXPECT_TRUE(WaitUntilReadinessIs("not ready: the index takes no commits"));
  EXPECT_THAT(Readiness(), HasSubstr("is on another disk than it was"));
  // Nothing is begun where it was mounted.
  EXPECT_TRUE(std::filesystem::is_empty(world_ / "server/data"));
  world_.StopServer();
}

}  // namespace
}  // namespace kerf::e2e
