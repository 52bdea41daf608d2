// That nobody who swaps names makes a backup open what he chooses.
#include "client/fs/node_handle.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/strings.h"
#include "client/fs/file_source.h"
#include "client/fs/page_cache.h"
#include "client/fs/testing/open_watch.h"
#include "client/fs/testing/temporary_directory.h"
#include "client/fs/walk_ahead.h"

namespace kerf::agent {
namespace {

using testing::OpenWatch;
using testing::Swapper;
using testing::TemporaryDirectory;

// "tree" is backed up, "outside" is not: a file and a fifo, of the names that the tree has, too.
class SwappedNamesTest : public ::testing::Test {
 protected:
  SwappedNamesTest() {
    for (const char* name : {"tree/folder/sub", "outside/sub"}) {
      std::filesystem::create_directories(directory_ / name);
    }
    for (const char* name : {"file", "fifo", "sub/file"}) {
      std::ofstream(directory_ / Cat("tree/folder/", name)) << "of the tree";
    }
    std::ofstream(directory_ / "outside/file") << "a secret";
    std::ofstream(directory_ / "outside/sub/file") << "a secret";
    EXPECT_EQ(mkfifo((directory_ / "outside/fifo").c_str(), 0600), 0);
    std::filesystem::create_symlink(directory_ / "outside", directory_ / "tree/link");
    watch_.Add(directory_ / "outside");
    watch_.Add(directory_ / "outside/sub");
    watch_.Add(directory_ / "outside/fifo");
  }

  NodeIdentity Identity(const std::string& name) const {
    struct stat status{};
    EXPECT_EQ(lstat((directory_ / name).c_str(), &status), 0);
    return {status.st_dev, status.st_ino, {}};
  }

  // In the place of the folder there is a symlink.
  void Swap() {
    std::filesystem::rename(directory_ / "tree/folder", directory_ / "away");
    std::filesystem::rename(directory_ / "tree/link", directory_ / "tree/folder");
  }

  // What a backup does with a file, from what was seen of it.
  void Touch(const std::string& name, const NodeIdentity& scanned) const {
    const std::string path = directory_.NodePath("tree/folder/" + name);
    static_cast<void>(BeginReadingFile(path, scanned, 100));
    static_cast<void>(PhysicalPlace(path, scanned));
    absl::StatusOr<FileSource> source = FileSource::Open(path, scanned);
    if (!source.ok()) return;
    std::vector<std::uint8_t> buffer(100);
    const auto count = source->Read(buffer);
    ASSERT_TRUE(count.ok());
    EXPECT_EQ(std::string(buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(*count)),
              "of the tree");
  }

  TemporaryDirectory directory_;
  OpenWatch watch_;
};

TEST_F(SwappedNamesTest, TheWatchSeesWhatIsOpened) {
  EXPECT_FALSE(watch_.WasOpened());
  close(open((directory_ / "tree/link/fifo").c_str(), O_RDONLY | O_NONBLOCK));
  EXPECT_TRUE(watch_.WasOpened());
  EXPECT_FALSE(watch_.WasOpened());
}

TEST_F(SwappedNamesTest, AFolderThatBecameASymlinkLeadsNowhere) {
  const NodeIdentity file = Identity("tree/folder/file");
  const NodeIdentity fifo = Identity("tree/folder/fifo");
  const NodeIdentity below = Identity("tree/folder/sub/file");
  Swap();
  Touch("file", file);
  Touch("fifo", fifo);
  Touch("sub/file", below);
  EXPECT_FALSE(watch_.WasOpened());
  const auto source = FileSource::Open(directory_.NodePath("tree/folder/file"), file);
  EXPECT_EQ(source.status().code(), absl::StatusCode::kFailedPrecondition);
}

// Whoever writes to a fifo must not be told that somebody reads it.
TEST_F(SwappedNamesTest, WhatHasTheNameOfAFileIsNotOpenedIfItIsNone) {
  const NodeIdentity scanned = Identity("tree/folder/file");
  for (const char* name : {"fifo", "sub"}) {
    std::filesystem::remove(directory_ / "tree/folder/file");
    std::filesystem::rename(directory_ / Cat("outside/", name), directory_ / "tree/folder/file");
    static_cast<void>(watch_.WasOpened());
    Touch("file", scanned);
    EXPECT_FALSE(watch_.WasOpened()) << name;
    std::filesystem::rename(directory_ / "tree/folder/file", directory_ / Cat("outside/", name));
  }
}

TEST_F(SwappedNamesTest, NorIfTheNamesAreSwappedAgainAndAgain) {
  if (!testing::CanExchange(directory_.path())) GTEST_SKIP() << "no RENAME_EXCHANGE here";
  const NodeIdentity file = Identity("tree/folder/file");
  const NodeIdentity below = Identity("tree/folder/sub/file");
  const Swapper swapper(directory_ / "tree/folder", directory_ / "tree/link");
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (swapper.count() < 100 || std::chrono::steady_clock::now() < end) {
    Touch("file", file);
    Touch("sub/file", below);
  }
  EXPECT_FALSE(watch_.WasOpened());
}

// A file and a fifo, in the place of each other.
TEST_F(SwappedNamesTest, NorIfTheFileItselfIsSwapped) {
  if (!testing::CanExchange(directory_.path())) GTEST_SKIP() << "no RENAME_EXCHANGE here";
  const std::string fifo = directory_ / "tree/another";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  watch_.Add(fifo);
  const NodeIdentity scanned = Identity("tree/folder/file");
  const Swapper swapper(directory_ / "tree/folder/file", fifo);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
  while (swapper.count() < 100 || std::chrono::steady_clock::now() < end) Touch("file", scanned);
  EXPECT_FALSE(watch_.WasOpened());
}

TEST_F(SwappedNamesTest, WhatIsLookedIntoAheadIsNotFollowedEither) {
  const NodeIdentity sub = Identity("tree/folder/sub");
  Swap();
  WalkAhead ahead(2);
  ahead.Offer("", {{directory_.NodePath("tree/folder"), sub.device},
                   {directory_.NodePath("tree/folder/sub"), sub.device}});
  while (ahead.looked_count() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(watch_.WasOpened());
}

// In a process of its own, whose root is the tree, once `prepare` has seen to its /proc.
class RootOfItsOwnTest : public SwappedNamesTest {
 protected:
  template <typename Prepare>
  void ExpectFilesAreRead(const Prepare& prepare) {
    if (geteuid() != 0) GTEST_SKIP() << "only root may change its root";
    const NodeIdentity file = Identity("tree/folder/sub/file");
    OpenWatch hints;
    hints.Add(directory_ / "tree/folder/sub/file");
    const pid_t child = fork();
    if (child == 0) {
      if (chroot((directory_ / "tree").c_str()) != 0 || chdir("/") != 0) _exit(77);
      if (!prepare()) _exit(78);
      // But not for a hint, which is not worth that another thing may be opened.
      static_cast<void>(BeginReadingFile("folder/sub/file", file, 100));
      if (hints.WasOpened()) _exit(9);
      ReadFiles();
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "the root may not be changed here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }

 private:
  [[noreturn]] static void ReadFiles() {
    std::vector<std::uint8_t> buffer(100);
    absl::StatusOr<FileSource> source = FileSource::Open("folder/sub/file", {});
    if (!source.ok() || *source->Read(buffer) != 11u) _exit(1);
    // No more than with it.
    unlink("folder/file");
    if (mkfifo("folder/file", 0600) != 0) _exit(2);
    if (!absl::IsFailedPrecondition(FileSource::Open("folder/file", {}).status())) _exit(3);
    if (!absl::IsFailedPrecondition(FileSource::Open("folder/sub", {}).status())) _exit(4);
    if (symlink("folder", "way") != 0) _exit(5);
    if (!absl::IsFailedPrecondition(FileSource::Open("way/sub/file", {}).status())) _exit(6);
    if (symlink("sub/file", "folder/last") != 0) _exit(7);
    if (!absl::IsFailedPrecondition(FileSource::Open("folder/last", {}).status())) _exit(8);
    _exit(0);
  }
};

// Where there is no /proc no handle can be opened: then it is opened by its name.
TEST_F(RootOfItsOwnTest, WithoutProcFilesAreStillRead) {
  ExpectFilesAreRead([] { return true; });
}

// As a container masks it.
TEST_F(RootOfItsOwnTest, NorDoesAProcThatIsNoFolderKeepThemFromBeingRead) {
  ExpectFilesAreRead([] { return mknod("proc", S_IFREG | 0600, 0) == 0; });
}

TEST_F(RootOfItsOwnTest, NorOneThatMayNotBeEntered) {
  ExpectFilesAreRead([] {
    constexpr uid_t kAnybody = 65'534;
    for (const char* name : {"folder", "folder/sub", "."}) {
      if (chmod(name, 0777) != 0) return false;
    }
    return mkdir("proc", 0) == 0 && chmod("folder/sub/file", 0644) == 0 && setuid(kAnybody) == 0 &&
           access("proc/self", F_OK) != 0 && errno == EACCES;
  });
}

// A /proc that can be used says of the file itself that it may not be read: nobody then opens what
// has its name by now.
TEST(UnreadableFileTest, IsNotOpenedByItsName) {
  constexpr uid_t kAnybody = 65'534;
  if (seteuid(kAnybody) != 0 || seteuid(0) != 0) GTEST_SKIP() << "nobody else can be had here";
  // TEST_TMPDIR is not for others.
  std::string folder = "/tmp/kerf-handle-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  const std::string path = folder + "/file";
  std::ofstream(path) << "of root";
  ASSERT_EQ(chmod(path.c_str(), 0600), 0);
  const auto handle = HandleOfNode(path.substr(1));
  ASSERT_TRUE(handle.ok()) << handle.status();
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  ASSERT_EQ(chmod(path.c_str(), 0666), 0);
  OpenWatch watch;
  watch.Add(path);
  ASSERT_EQ(seteuid(kAnybody), 0);
  const absl::Status status = OpenFileOf(*handle, path.substr(1), OpenFor::kReading).status();
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
  EXPECT_FALSE(watch.WasOpened());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace kerf::agent
