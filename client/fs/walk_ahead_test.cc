#include "client/fs/walk_ahead.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <thread>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using testing::TemporaryDirectory;

// Of what has a path: a sanitizer opens pipes to its symbolizer when it likes.
std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code ignored;
    const std::string what = std::filesystem::read_symlink(entry.path(), ignored).string();
    count += what.starts_with("/") ? 1 : 0;
  }
  return count;
}

class WalkAheadTest : public ::testing::Test {
 protected:
  WalkAheadTest() {
    struct stat status{};
    EXPECT_EQ(stat(directory_.path().c_str(), &status), 0);
    device_ = status.st_dev;
  }

  WalkAhead::Directory Make(const std::string& name, int file_count) {
    std::filesystem::create_directories(directory_ / name);
    for (int number = 0; number < file_count; ++number) {
      std::ofstream(directory_ / Cat(name, "/", number)) << number;
    }
    return {directory_.NodePath(name), device_};
  }

  static void WaitUntilLooked(const WalkAhead& ahead, std::uint64_t count) {
    while (ahead.looked_count() < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  TemporaryDirectory directory_;
  std::uint64_t device_ = 0;
};

TEST_F(WalkAheadTest, LooksIntoWhatTheWalkHasNotPassed) {
  const auto early = Make("a", 3);
  const auto here = Make("m", 3);
  const auto below = Make("m/sub", 100);
  const auto late = Make("z", 3);
  WalkAhead ahead(1);
  // In this order, of which the first is passed already.
  ahead.Offer(here.path, {early, here, below, late});
  WaitUntilLooked(ahead, 3);
  ahead.Offer(late.path, {early, below});
  ahead.Offer(late.path, {late});
  WaitUntilLooked(ahead, 4);
  EXPECT_EQ(ahead.looked_count(), 4u);
}

TEST_F(WalkAheadTest, IsNotHarmedByWhatIsNoDirectoryOfThisDevice) {
  const auto real = Make("real", 3);
  std::ofstream(directory_ / "file") << "x";
  std::filesystem::create_symlink("real", directory_ / "link");
  ASSERT_EQ(mkfifo((directory_ / "fifo").c_str(), 0600), 0);
  const std::size_t before = OpenDescriptors();
  {
    WalkAhead ahead(3);
    std::vector<WalkAhead::Directory> wrong;
    for (const char* name : {"file", "link", "fifo", "gone", "real/gone/further"}) {
      wrong.push_back({directory_.NodePath(name), device_});
    }
    wrong.push_back({real.path, device_ + 1});
    wrong.push_back({"proc", device_});
    const std::size_t count = wrong.size();
    ahead.Offer("", std::move(wrong));
    WaitUntilLooked(ahead, count);
    EXPECT_EQ(ahead.name_count(), 0u);
  }
  EXPECT_EQ(OpenDescriptors(), before);
}

TEST_F(WalkAheadTest, WhatNobodyHasBegunIsDropped) {
  std::vector<WalkAhead::Directory> many(100'000, Make("many", 1000));
  WalkAhead ahead(2);
  ahead.Offer("", std::move(many));
}

// Nobody waits for a large directory on a slow disk.
TEST_F(WalkAheadTest, WhatIsBegunEndsAtTheNextName) {
  constexpr int kCount = 3000;
  const WalkAhead::Directory large = Make("large", kCount);
  bool ended_early = false;
  // A quick one may have seen everything.
  for (int round = 0; round < 100 && !ended_early; ++round) {
    WalkAhead ahead(1);
    ahead.Offer("", {large});
    while (ahead.name_count() == 0) std::this_thread::yield();
    ahead.Stop();
    ended_early = ahead.name_count() < kCount;
  }
  EXPECT_TRUE(ended_early);
}

// A walk must not end for what was but a hint.
TEST_F(WalkAheadTest, WithoutThreadsNothingIsLookedInto) {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{0, 0};
    // Root has no limit.
    const bool is_user = geteuid() != 0 || setresuid(65534, 65534, 65534) == 0;
    if (!is_user || setrlimit(RLIMIT_NPROC, &none) != 0) _exit(77);
    WalkAhead ahead(4);
    ahead.Offer("", {{directory_.NodePath("a"), device_}});
    ahead.Offer("", {{directory_.NodePath("b"), device_}});
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "nobody can be without threads here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// Nothing has been read from a disk between two looks.
TEST_F(WalkAheadTest, WhereAllIsInMemoryItIsNotCold) {
  WalkAhead ahead(2);
  for (int look = 0; look < 100; ++look) static_cast<void>(ahead.IsCold());
  EXPECT_FALSE(ahead.IsCold());
}

}  // namespace
}  // namespace kerf::agent
