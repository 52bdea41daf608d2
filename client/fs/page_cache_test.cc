#include "client/fs/page_cache.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>
#include <string>

#include "base/unique_fd.h"
#include "client/fs/stamp_clock.h"
#include "client/fs/testing/open_watch.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

using testing::OpenWatch;
using testing::TemporaryDirectory;

UniqueFd Handle(const std::string& path) {
  return UniqueFd(open(path.c_str(), O_PATH | O_CLOEXEC));
}

NodeIdentity IdentityAt(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return {status.st_dev, status.st_ino, {}};
}

class PageCacheTest : public ::testing::Test {
 protected:
  PageCacheTest() { std::ofstream(path()) << std::string(100'000, 'x'); }

  std::string path() const { return directory_ / "file"; }
  std::string node_path() const { return directory_.NodePath("file"); }
  bool IsLocal() const { return WhoStamps(Handle(path()).get()) == StampedBy::kThisMachine; }

  TemporaryDirectory directory_;
};

TEST_F(PageCacheTest, FileSystemsOfThisMachineKeepWhatIsRead) {
  if (!IsLocal()) GTEST_SKIP() << "the folder for tests is on another one";
  EXPECT_TRUE(KeepsWhatIsRead(Handle(path()).get()));
  EXPECT_FALSE(KeepsWhatIsRead(Handle("/proc/version").get()));
  EXPECT_FALSE(KeepsWhatIsRead(-1));
}

// There each who opens it, or each read, may have all of it read again.
TEST_F(PageCacheTest, WhereNothingIsKeptNothingIsOpened) {
  if (!IsLocal()) GTEST_SKIP() << "the folder for tests is on another one";
  OpenWatch watch;
  watch.Add(path());
  watch.Add("/proc/version");
  EXPECT_FALSE(BeginReadingFile("proc/version", IdentityAt("/proc/version"), 100));
  EXPECT_FALSE(watch.WasOpened());
  // By the same thread, of another device.
  static_cast<void>(BeginReadingFile(node_path(), IdentityAt(path()), 100));
  EXPECT_TRUE(watch.WasOpened());
  EXPECT_FALSE(BeginReadingFile("proc/version", IdentityAt("/proc/version"), 100));
  EXPECT_FALSE(watch.WasOpened());
}

// Who holds it has some 45 s.
TEST_F(PageCacheTest, NobodyWaitsForALease) {
  // What tells the holder that somebody asks.
  ASSERT_NE(signal(SIGIO, SIG_IGN), SIG_ERR);
  const UniqueFd holder(open(path().c_str(), O_RDWR | O_CLOEXEC));
  if (fcntl(holder.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases here";
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(BeginReadingFile(node_path(), IdentityAt(path()), 100));
  EXPECT_EQ(PhysicalPlace(node_path(), IdentityAt(path())), 0u);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

}  // namespace
}  // namespace kerf::agent
