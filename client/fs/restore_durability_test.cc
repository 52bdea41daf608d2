// What a restore has done lasts, or somebody is told; what does not last never looks complete.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/strings.h"
#include "client/fs/durability.h"
#include "client/fs/restorer.h"
#include "client/fs/testing/memory_nodes.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/temporary_directory.h"
#include "gmock/gmock.h"

namespace kerf::agent {
namespace {

using testing::Directory;
using ::testing::ElementsAre;
using testing::Exists;
using testing::File;
using testing::HardLink;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryNode;
using testing::RestoreAll;
using testing::RestoreReport;
using testing::TemporaryDirectory;
using testing::TextOf;
using ::testing::UnorderedElementsAre;

// That of a node of memory_nodes.h.
bool HasSnapshotTime(const std::string& path) {
  struct stat status{};
  return lstat(path.c_str(), &status) == 0 && status.st_mtim.tv_sec == 1'500'000'000 &&
         status.st_mtim.tv_nsec == 123;
}

// A disk that does what it is told, and remembers what it was asked.
class FakeDisk final : public Durability {
 public:
  explicit FakeDisk(const std::string& root) : root_(root) {}

  int Flush(int fd) override { return flush ? flush(Name(fd)) : 0; }
  int SyncFile(int fd) override {
    const std::lock_guard lock(mutex_);
    synced_files.insert(Name(fd));
    return sync_file ? sync_file(Name(fd)) : 0;
  }
  int SyncFileSystem(int fd) override {
    const std::lock_guard lock(mutex_);
    ++sync_count;
    return sync ? sync(Name(fd)) : 0;
  }
  bool SyncsAsAWhole(int fd) override { return fd >= 0 && syncs_as_a_whole; }

  std::function<int(const std::string& name)> flush;
  std::function<int(const std::string& name)> sync;
  std::function<int(const std::string& name)> sync_file;
  bool syncs_as_a_whole = true;
  std::set<std::string> synced_files;
  int sync_count = 0;

 private:
  // Below the root.
  std::string Name(int fd) const {
    std::string path(4096, '\0');
    const ssize_t size = readlink(Cat("/proc/self/fd/", fd).c_str(), path.data(), path.size());
    path.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return path.substr(std::min(root_.size(), path.size()));
  }

  const std::string root_;
  std::mutex mutex_;
};

class RestoreDurabilityTest : public ::testing::Test {
 protected:
  RestoreReport Restore(const std::vector<MemoryNode>& nodes,
                        OverwritePolicy policy = OverwritePolicy::kRefuse, bool verify = false) {
    RestoreOptions options;
    options.durability = &disk_;
    options.verify = verify;
    return RestoreAll(nodes, target_, policy, std::move(options));
  }

  TemporaryDirectory directory_;
  const std::string target_ = directory_ / "target";
  FakeDisk disk_{target_};
};

TEST_F(RestoreDurabilityTest, AFileHasNotItsTimeBeforeItIsDurable) {
  int early_count = 0;
  disk_.sync = [&](const std::string& /*name*/) {
    // The first sync is the files' own.
    if (disk_.sync_count > 1) return 0;
    for (const char* name : {"/a/f", "/g"}) {
      EXPECT_EQ(TextOf(target_ + name), "text");
      early_count += HasSnapshotTime(target_ + name) ? 1 : 0;
    }
    return 0;
  };
  const RestoreReport report = Restore({Directory("a"), File("a/f", "text"), File("g", "text")});
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(early_count, 0);
  EXPECT_EQ(disk_.sync_count, 2) << "the files, and at the end all names and times";
  for (const char* name : {"/a", "/a/f", "/g"}) EXPECT_TRUE(HasSnapshotTime(target_ + name));
}

// As after a cut of the power: what was not synced may have the size and no content.
TEST_F(RestoreDurabilityTest, WhatAnInterruptedRestoreLeavesIsNotTakenForComplete) {
  const std::vector<MemoryNode> nodes = {File("a", "text"), File("b", "text")};
  const pid_t child = fork();
  if (child == 0) {
    disk_.sync = [](const std::string& /*name*/) -> int { _exit(7); };
    Restore(nodes);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_EQ(WEXITSTATUS(status), 7);
  ASSERT_EQ(truncate((target_ + "/a").c_str(), 0), 0);
  ASSERT_EQ(truncate((target_ + "/a").c_str(), 4), 0);
  const RestoreReport report = Restore(nodes, OverwritePolicy::kIfChanged);
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(report.summary.file_count, 2u);
  EXPECT_EQ(TextOf(target_ + "/a"), "text");
}

// A quota of a file server shows when the file is closed, and no earlier.
TEST_F(RestoreDurabilityTest, AnErrorOfCloseIsReportedAndTheFileIsNotThere) {
  disk_.flush = [](const std::string& name) { return name == "/b" ? EDQUOT : 0; };
  const RestoreReport report = Restore({File("a", "text"), File("b", "text"), HardLink("c", "b")});
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("b: RESOURCE_EXHAUSTED: cannot write all of /b"),
                                         HasSubstr("which could not be restored")));
  EXPECT_EQ(report.summary.file_count, 1u);
  EXPECT_FALSE(Exists(target_ + "/b"));
  EXPECT_FALSE(Exists(target_ + "/c"));
}

TEST_F(RestoreDurabilityTest, AnErrorOfCloseIsReportedWithoutSyncToo) {
  disk_.flush = [](const std::string& /*name*/) { return EIO; };
  RestoreOptions options;
  options.durability = &disk_;
  options.sync = false;
  std::vector<std::string> errors;
  options.on_error = [&](const std::string& path, const absl::Status&) { errors.push_back(path); };
  auto restorer = MakeRestorer(target_, std::move(options));
  ASSERT_TRUE(restorer.ok());
  (*restorer)->Add(File("a", "").node, nullptr);
  EXPECT_EQ((*restorer)->Finish(false).file_count, 0u);
  EXPECT_THAT(errors, ElementsAre("a"));
  EXPECT_EQ(disk_.sync_count, 0);
}

TEST_F(RestoreDurabilityTest, WhatWasThereStaysUntilTheNewFileLasts) {
  ASSERT_THAT(Restore({File("a", "old"), File("b", "old")}).errors, IsEmpty());
  disk_.sync_count = 0;
  disk_.flush = [](const std::string& name) { return name != "/a" ? EIO : 0; };
  disk_.sync = [&](const std::string& /*name*/) {
    if (disk_.sync_count == 1) {
      EXPECT_EQ(TextOf(target_ + "/a") + TextOf(target_ + "/b"), "oldold");
    }
    return 0;
  };
  const RestoreReport report =
      Restore({File("a", "new!"), File("b", "new!")}, OverwritePolicy::kIfChanged);
  EXPECT_EQ(report.errors.size(), 2u);
  EXPECT_EQ(TextOf(target_ + "/a") + TextOf(target_ + "/b"), "oldold");
  disk_.flush = nullptr;
  EXPECT_THAT(Restore({File("a", "new!"), File("b", "new!")}, OverwritePolicy::kIfChanged).errors,
              IsEmpty());
  EXPECT_EQ(TextOf(target_ + "/a") + TextOf(target_ + "/b"), "new!new!");
}

TEST_F(RestoreDurabilityTest, OfAFileSystemThatCannotBeSyncedTheFilesThatAreLostAreNamed) {
  disk_.sync = [&](const std::string& /*name*/) { return disk_.sync_count == 1 ? EIO : 0; };
  disk_.sync_file = [](const std::string& name) { return name == "/b" ? EIO : 0; };
  const RestoreReport report = Restore({File("a", "1"), File("b", "2"), File("c", "3")});
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("b: ")));
  EXPECT_THAT(disk_.synced_files, UnorderedElementsAre("/a", "/b", "/c"));
  EXPECT_TRUE(HasSnapshotTime(target_ + "/a"));
  EXPECT_FALSE(Exists(target_ + "/b"));
}

TEST_F(RestoreDurabilityTest, WhereSyncingAllTellsNobodyEachFileAndDirectoryIsSynced) {
  disk_.syncs_as_a_whole = false;
  EXPECT_THAT(Restore({Directory("a"), File("a/f", "1"), File("g", "2")}).errors, IsEmpty());
  EXPECT_THAT(disk_.synced_files, UnorderedElementsAre("", "/a", "/a/f", "/g"));
  EXPECT_EQ(disk_.sync_count, 0);
}

TEST_F(RestoreDurabilityTest, AnErrorOfTheLastSyncIsReported) {
  disk_.sync = [&](const std::string& /*name*/) { return disk_.sync_count == 2 ? EIO : 0; };
  const RestoreReport report = Restore({File("a", "1")});
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("cannot make durable what was restored")));
  EXPECT_EQ(report.summary.error_count, 1u);
}

TEST_F(RestoreDurabilityTest, WhatIsReadBackDifferentlyIsReported) {
  MemoryNode sparse = File("sparse", "0123456789");
  sparse.node.sparse = true;
  sparse.node.size_bytes = 1 << 20;
  sparse.node.extents = {{4096, 4}, {500'000, 6}};
  const std::vector<MemoryNode> nodes = {File("bit", "text"), File("empty", ""),
                                         File("short", "text"), sparse, File("sound", "text")};
  EXPECT_THAT(Restore(nodes, OverwritePolicy::kRefuse, true).errors, IsEmpty());
  testing::RemoveTree(target_);
  disk_.sync_count = 0;
  disk_.sync = [&](const std::string& /*name*/) {
    if (disk_.sync_count > 1) return 0;
    const auto change = [&](const char* name, off_t offset) {
      const int fd = open((target_ + name).c_str(), O_WRONLY | O_CLOEXEC);
      EXPECT_EQ(pwrite(fd, "?", 1, offset), 1);
      close(fd);
    };
    change("/bit", 2);
    change("/sparse", 500'005);
    EXPECT_EQ(truncate((target_ + "/short").c_str(), 3), 0);
    return 0;
  };
  const RestoreReport report = Restore(nodes, OverwritePolicy::kRefuse, true);
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("bit: DATA_LOSS"), HasSubstr("short: DATA_LOSS"),
                                         HasSubstr("sparse: DATA_LOSS")));
  EXPECT_EQ(report.summary.verified_count, 2u);
  EXPECT_FALSE(Exists(target_ + "/bit"));
  EXPECT_EQ(TextOf(target_ + "/sound"), "text");
}

}  // namespace
}  // namespace kerf::agent
