#include "client/fs/restorer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"
#include "client/fs/testing/compare_trees.h"
#include "client/fs/testing/memory_nodes.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/nasty_tree.h"
#include "client/fs/testing/temporary_directory.h"
#include "gmock/gmock.h"

namespace kerf::agent {
namespace {

using testing::CompareTrees;
using testing::Directory;
using ::testing::ElementsAre;
using testing::Exists;
using testing::File;
using testing::HardLink;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryContent;
using testing::MemoryNode;
using testing::MemorySnapshot;
using testing::RestoreAll;
using testing::RestoreReport;
using testing::Symlink;
using testing::TakeSnapshot;
using testing::TemporaryDirectory;
using testing::TextOf;

class RestorerTest : public ::testing::Test {
 protected:
  RestorerTest() : target_(directory_ / "target"), outside_(directory_ / "outside") {
    std::filesystem::create_directory(outside_);
    std::ofstream(outside_ + "/secret") << "secret";
  }

  RestoreReport Restore(const std::vector<MemoryNode>& nodes,
                        OverwritePolicy policy = OverwritePolicy::kRefuse) {
    return RestoreAll(nodes, target_, policy);
  }

  void ExpectOutsideUntouched() {
    EXPECT_EQ(TextOf(outside_ + "/secret"), "secret");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(outside_), {}), 1);
    struct stat status{};
    stat((outside_ + "/secret").c_str(), &status);
    EXPECT_EQ(status.st_nlink, 1u);
    EXPECT_FALSE(Exists(directory_ / "escaped"));
  }

  TemporaryDirectory directory_;
  const std::string target_;
  const std::string outside_;
};

TEST_F(RestorerTest, NastyTreeComesBackAsItWas) {
  const std::string tree = directory_ / "nasty";
  testing::RemoveUnreadable(testing::MakeNastyTree(tree, TestSeed()));
  const MemorySnapshot snapshot = TakeSnapshot({tree});
  ASSERT_THAT(snapshot.errors, IsEmpty());
  const RestoreReport first = Restore(snapshot.nodes);
  EXPECT_THAT(first.errors, IsEmpty());
  const std::string restored = target_ + tree;
  EXPECT_THAT(CompareTrees(tree, restored, {.owners = true, .holes = true}), IsEmpty());

  // Again over it: files that are the same stay, all else is made anew.
  const RestoreReport again = Restore(snapshot.nodes, OverwritePolicy::kIfChanged);
  EXPECT_THAT(again.errors, IsEmpty());
  EXPECT_EQ(again.summary.file_count, 0u);
  EXPECT_THAT(CompareTrees(tree, restored, {.owners = true, .holes = true}), IsEmpty());

  const RestoreReport all = Restore(snapshot.nodes, OverwritePolicy::kAlways);
  EXPECT_THAT(all.errors, IsEmpty());
  EXPECT_EQ(all.summary.file_count, first.summary.file_count);
  EXPECT_THAT(CompareTrees(tree, restored, {.owners = true, .holes = true}), IsEmpty());
}

// A hostile snapshot can name any number of directories with large attributes.
TEST_F(RestorerTest, DirectoriesAndLinksThatDoNotFitIntoMemoryAreLeftOut) {
  std::vector<MemoryNode> nodes = {Directory("a"), File("a/f", "text"), Directory("b")};
  nodes.back().node.xattrs = {{"user.a", std::string(50'000, 'x')}};
  nodes.push_back(File("b/f", "text"));
  nodes.push_back(HardLink("c", "a/f"));
  // Its file has them already.
  nodes.back().node.xattrs = {{"user.a", std::string(50'000, 'x')}};
  nodes.push_back(HardLink("d", "a/f"));
  RestoreOptions options;
  options.max_held_node_bytes = 40'000;
  const RestoreReport report =
      RestoreAll(nodes, target_, OverwritePolicy::kRefuse, std::move(options));
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("b: FAILED_PRECONDITION")));
  EXPECT_EQ(report.summary.error_count, 2u) << "what lies in it is left out, too";
  EXPECT_FALSE(Exists(target_ + "/b"));
  for (const char* name : {"/a/f", "/c", "/d"}) EXPECT_EQ(TextOf(target_ + name), "text");
}

// More than may wait at once, and single nodes that are more than a batch.
TEST_F(RestorerTest, NodesThatAreLargeThemselvesAllComeBack) {
  std::vector<MemoryNode> nodes;
  for (int number = 100; number < 250; ++number) {
    nodes.push_back(File(Cat("f", number), "text"));
    // Attributes that cannot be set: they are reported, and the file stays.
    nodes.back().node.xattrs.resize(number % 10 == 0 ? 40 : 1);
    for (Xattr& xattr : nodes.back().node.xattrs) {
      xattr = {"nowhere.a", std::string(64 << 10, 'x')};
    }
  }
  const RestoreReport report = Restore(nodes);
  EXPECT_EQ(report.summary.file_count, nodes.size());
}

TEST_F(RestorerTest, CompareTreesSeesDifferences) {
  ASSERT_THAT(Restore({Directory("l"), File("l/a", "1"), Directory("r"), File("r/a", "2")}).errors,
              IsEmpty());
  EXPECT_THAT(CompareTrees(target_ + "/l", target_ + "/r"),
              ElementsAre(HasSubstr("differs in content")));
  std::filesystem::permissions(target_ + "/r/a", std::filesystem::perms::owner_all);
  EXPECT_EQ(CompareTrees(target_ + "/l", target_ + "/r").size(), 2u);
}

TEST_F(RestorerTest, RefusesNamesThatLeaveTheTarget) {
  const RestoreReport report =
      Restore({File("../escaped", "x"), File("/escaped", "x"), File("", "x"), File("a//b", "x"),
               Directory(".."), File("./a", "x"), Directory("a"), File("a/../../escaped", "x"),
               File(std::string("a/b\0c", 5), "x"), File("a/fine", "fine")});
  EXPECT_EQ(report.errors.size(), 8u);
  EXPECT_EQ(TextOf(target_ + "/a/fine"), "fine");
  ExpectOutsideUntouched();
}

TEST_F(RestorerTest, NeverWritesThroughASymlinkOfTheSnapshot) {
  const RestoreReport report =
      Restore({Symlink("a", outside_), File("a/b", "x"), Symlink("c", "../outside"),
               Directory("c/d"), File("c/d/e", "x"), File("z", "fine")});
  EXPECT_EQ(report.summary.error_count, 3u);
  EXPECT_EQ(TextOf(target_ + "/z"), "fine");
  ExpectOutsideUntouched();
}

TEST_F(RestorerTest, ASymlinkAndADirectoryOfTheSameName) {
  for (const OverwritePolicy policy :
       {OverwritePolicy::kRefuse, OverwritePolicy::kNever, OverwritePolicy::kAlways}) {
    testing::RemoveTree(target_);
    // Which of the two is there first is open; neither may lead outside.
    Restore({Symlink("a", outside_), Directory("a"), File("a/secret", "overwritten")}, policy);
    ExpectOutsideUntouched();
  }
}

TEST_F(RestorerTest, WhatLiesBelowAFailedDirectoryIsCountedNotReported) {
  ASSERT_THAT(Restore({File("a", "x")}).errors, IsEmpty());
  const RestoreReport report = Restore({Directory("a"), File("a/b", "x"), File("a/c", "x")});
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("all below it is left out")));
  EXPECT_EQ(report.summary.error_count, 3u);
}

TEST_F(RestorerTest, NeverWritesThroughASymlinkOfTheTarget) {
  for (const OverwritePolicy policy :
       {OverwritePolicy::kRefuse, OverwritePolicy::kNever, OverwritePolicy::kAlways}) {
    testing::RemoveTree(target_);
    std::filesystem::create_directory(target_);
    std::filesystem::create_symlink(outside_, target_ + "/dir");
    std::filesystem::create_symlink(outside_ + "/secret", target_ + "/file");
    Restore({Directory("dir"), File("dir/secret", "overwritten"), File("file", "overwritten")},
            policy);
    ExpectOutsideUntouched();
    EXPECT_EQ(TextOf(target_ + "/file"),
              policy == OverwritePolicy::kAlways ? "overwritten" : "secret");
  }
}

// Does something while the content of a file is written.
class MeddlingContent final : public FileContent {
 public:
  explicit MeddlingContent(std::function<void()> meddle) : meddle_(std::move(meddle)) {}
  absl::StatusOr<std::span<const std::uint8_t>> Next() override {
    if (meddle_) std::exchange(meddle_, nullptr)();
    return std::span<const std::uint8_t>();
  }

 private:
  std::function<void()> meddle_;
};

// Names, modes, times and contents.
std::string Describe(const std::string& directory) {
  std::string text;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string path = entry.path();
    struct stat status{};
    EXPECT_EQ(lstat(path.c_str(), &status), 0);
    text += Cat(path, " ", status.st_mode, " ", status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec,
                " ", status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec, " ",
                entry.is_regular_file() ? TextOf(path) : "", "\n");
  }
  struct stat status{};
  EXPECT_EQ(lstat(directory.c_str(), &status), 0);
  return Cat(text, status.st_mode, " ", status.st_mtim.tv_sec, " ", status.st_ctim.tv_nsec);
}

// Somebody who may write to the target puts a symlink in the place of a directory that the restore
// is in, as he would to have root write elsewhere.
TEST_F(RestorerTest, ADirectoryThatBecomesASymlinkMeanwhileLeadsNowhere) {
  const std::vector<std::string> inner = {"sub", "sub/deep"};
  for (const std::string& name : inner) std::filesystem::create_directory(outside_ + "/" + name);
  for (const char* name : {"/sub/f", "/sub/deep/f"}) std::ofstream(outside_ + name) << "theirs";
  const std::string before = Describe(outside_);
  RestoreOptions options;
  options.sync = false;
  options.thread_count = 1;
  std::vector<std::string> errors;
  options.on_error = [&](const std::string& path, const absl::Status& status) {
    errors.push_back(path + ": " + status.ToString());
  };
  auto restorer = MakeRestorer(target_, std::move(options));
  ASSERT_TRUE(restorer.ok());
  std::atomic<bool> is_swapped = false;
  const auto add = [&](const MemoryNode& entry, std::unique_ptr<FileContent> content = nullptr) {
    (*restorer)->Add(entry.node, std::move(content));
  };
  add(Directory("d", 0711));
  // Directories are made at once, before the swap.
  for (const std::string& name : inner) add(Directory("d/" + name, 0711));
  add(File("d/sub/deep/f", ""));
  add(File("d/sub/f", ""));
  add(File("e", ""), std::make_unique<MeddlingContent>([&] {
        std::filesystem::rename(target_ + "/d", target_ + "/moved");
        std::filesystem::create_directory_symlink(outside_, target_ + "/d");
        is_swapped = true;
      }));
  // More files than wait for a thread, so that the swap is done when the rest comes.
  for (int number = 0; !is_swapped; ++number) add(File(Cat("f", 1'000'000 + number), ""));
  add(HardLink("g", "d/sub/f"));
  add(Directory("h"));
  EXPECT_GT((*restorer)->Finish(false).error_count, 0u);
  EXPECT_EQ(Describe(outside_), before);
  // The directories, of which the metadata comes last, and the file that is to be linked to.
  EXPECT_THAT(errors, ::testing::SizeIs(inner.size() + 2)) << ::testing::PrintToString(errors);
}

TEST_F(RestorerTest, HardLinksStayInside) {
  const RestoreReport report =
      Restore({Symlink("a", outside_), File("b", "b"), HardLink("c", "a/secret"),
               HardLink("d", "../outside/secret"), HardLink("e", "a"), HardLink("f", "none"),
               HardLink("g", "b"), Symlink("h", outside_ + "/secret"), HardLink("i", "h")});
  EXPECT_EQ(report.errors.size(), 5u);
  EXPECT_EQ(TextOf(target_ + "/g"), "b");
  for (const char* name : {"/c", "/d", "/e", "/f", "/i"}) EXPECT_FALSE(Exists(target_ + name));
  ExpectOutsideUntouched();
}

TEST_F(RestorerTest, OverwritePolicies) {
  const std::vector<MemoryNode> nodes = {File("a", "new"), Symlink("l", "new")};
  const auto reset = [&] {
    testing::RemoveTree(target_);
    std::filesystem::create_directory(target_);
    std::ofstream(target_ + "/a") << "old";
    std::filesystem::create_symlink("old", target_ + "/l");
  };
  reset();
  EXPECT_EQ(Restore(nodes, OverwritePolicy::kRefuse).errors.size(), 2u);
  EXPECT_EQ(TextOf(target_ + "/a"), "old");
  RestoreReport report = Restore(nodes, OverwritePolicy::kNever);
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(report.summary.skipped_count, 2u);
  EXPECT_EQ(TextOf(target_ + "/a"), "old");
  report = Restore(nodes, OverwritePolicy::kIfChanged);
  EXPECT_THAT(report.errors, IsEmpty());
  EXPECT_EQ(TextOf(target_ + "/a"), "new");
  EXPECT_EQ(std::filesystem::read_symlink(target_ + "/l"), "new");
  // Same size and time: it counts as unchanged, whatever it says.
  std::ofstream(target_ + "/a") << "odd";
  const timespec times[2] = {{0, UTIME_OMIT}, {1'500'000'000, 123}};
  utimensat(AT_FDCWD, (target_ + "/a").c_str(), times, 0);
  EXPECT_THAT(Restore(nodes, OverwritePolicy::kIfChanged).errors, IsEmpty());
  EXPECT_EQ(TextOf(target_ + "/a"), "odd");
  EXPECT_THAT(Restore(nodes, OverwritePolicy::kAlways).errors, IsEmpty());
  EXPECT_EQ(TextOf(target_ + "/a"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(target_), {}), 2)
      << "no temporary file is left";
}

TEST_F(RestorerTest, ADirectoryIsNeverReplacedByAFile) {
  std::filesystem::create_directories(target_ + "/a/b");
  const RestoreReport report = Restore({File("a", "x")}, OverwritePolicy::kAlways);
  EXPECT_EQ(report.errors.size(), 1u);
  EXPECT_TRUE(std::filesystem::is_directory(target_ + "/a/b"));
}

TEST_F(RestorerTest, AFileWhoseContentFailsLeavesNothingBehind) {
  std::vector<std::string> errors;
  RestoreOptions options;
  options.overwrite = OverwritePolicy::kAlways;
  options.on_error = [&](const std::string& path, const absl::Status&) { errors.push_back(path); };
  std::filesystem::create_directory(target_);
  std::ofstream(target_ + "/kept") << "old";
  auto restorer = MakeRestorer(target_, options);
  ASSERT_TRUE(restorer.ok());
  const std::vector<std::uint8_t> bytes(100, 'x');
  const auto add = [&](const std::string& path, std::uint64_t size, absl::Status end) {
    MemoryNode entry = File(path, "");
    entry.node.size_bytes = size;
    (*restorer)->Add(entry.node, std::make_unique<MemoryContent>(bytes, 7, std::move(end)));
  };
  add("broken", 200, absl::DataLossError("a damaged chunk"));
  add("kept", 200, absl::DataLossError("a damaged chunk"));
  add("long", 99, absl::OkStatus());
  add("short", 101, absl::OkStatus());
  add("whole", 100, absl::OkStatus());
  (*restorer)->Add(HardLink("z-link", "broken").node, nullptr);
  const RestoreSummary summary = (*restorer)->Finish(false);
  std::sort(errors.begin(), errors.end());
  EXPECT_THAT(errors, ElementsAre("broken", "kept", "long", "short", "z-link"));
  EXPECT_EQ(summary.error_count, 5u);
  EXPECT_EQ(summary.file_count, 1u);
  EXPECT_EQ(TextOf(target_ + "/kept"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(target_), {}), 2);
}

TEST_F(RestorerTest, ExtentsThatLieAreRefused) {
  MemoryNode overlap = File("overlap", "0123456789");
  overlap.node.sparse = true;
  overlap.node.size_bytes = 100;
  overlap.node.extents = {{10, 5}, {12, 5}};
  MemoryNode beyond = overlap;
  beyond.node.path = "beyond";
  beyond.node.extents = {{0, 5}, {~std::uint64_t{0} - 2, 5}};
  EXPECT_EQ(Restore({beyond, overlap}).errors.size(), 2u);
  EXPECT_TRUE(std::filesystem::is_empty(target_));
}

TEST_F(RestorerTest, CancelLeavesUsableDirectories) {
  auto restorer = MakeRestorer(target_, {});
  ASSERT_TRUE(restorer.ok());
  (*restorer)->Add(Directory("a", 0750).node, nullptr);
  (*restorer)->Add(File("a/b", "").node, nullptr);
  (*restorer)->Finish(true);
  struct stat status{};
  ASSERT_EQ(stat((target_ + "/a").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0750u);
}

// Runs `body` in a child without privileges and returns its exit code.
int AsNobody(const std::function<int()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    constexpr int kNobody = 65534;
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(77);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

TEST_F(RestorerTest, WithoutPrivileges) {
  // Where nobody may go: Bazel's own folders are perhaps below root's home.
  const TemporaryDirectory open_to_all("/tmp");
  std::filesystem::permissions(open_to_all.path(), std::filesystem::perms::all);
  const std::string target = open_to_all / "target";
  const int code = AsNobody([&] {
    MemoryNode foreign = File("read-only/set-id", "x");
    foreign.node.uid = 0;
    foreign.node.gid = 0;
    foreign.node.mode = 06755;
    MemoryNode attribute = File("read-only/z-attribute", "x");
    attribute.node.mode = 0444;
    attribute.node.xattrs = {{"user.kept", "value"}};
    const std::vector<MemoryNode> nodes = {Directory("read-only", 0555),
                                           Directory("read-only/below", 0555),
                                           File("read-only/below/file", "x"), foreign, attribute};
    for (const OverwritePolicy policy : {OverwritePolicy::kRefuse, OverwritePolicy::kAlways}) {
      const RestoreReport report = RestoreAll(nodes, target, policy);
      for (const std::string& error : report.errors) std::fprintf(stderr, "%s\n", error.c_str());
      if (!report.errors.empty()) return 1;
      if (report.summary.unprivileged_count != 1) return 2;
    }
    // What only root could set is no reason to restore it again each time.
    if (RestoreAll(nodes, target, OverwritePolicy::kIfChanged).summary.skipped_count != 3) return 7;
    struct stat status{};
    if (stat((target + "/read-only").c_str(), &status) != 0) return 3;
    if ((status.st_mode & 07777) != 0555) return 4;
    if (stat((target + "/read-only/set-id").c_str(), &status) != 0) return 5;
    // A foreign program must not become one that runs as its new owner.
    return (status.st_mode & 07777) == 0755 ? 0 : 6;
  });
  if (code == 77) GTEST_SKIP() << "this sandbox has one user only";
  EXPECT_EQ(code, 0);
}

// As `chattr +i`: not even root may change it. False where the file system or the user cannot.
bool SetImmutable(const std::string& path, bool immutable) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  int flags = 0;
  if (ioctl(fd.get(), FS_IOC_GETFLAGS, &flags) != 0) return false;
  flags = immutable ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
  return ioctl(fd.get(), FS_IOC_SETFLAGS, &flags) == 0;
}

TEST_F(RestorerTest, AnImmutableFileInTheWayIsReportedAndTheRestIsThere) {
  ASSERT_THAT(Restore({Directory("a"), File("a/b", "old"), File("a/c", "old")}).errors, IsEmpty());
  if (!SetImmutable(target_ + "/a/b", true)) GTEST_SKIP() << "nothing can be made immutable here";
  const RestoreReport report =
      Restore({Directory("a"), File("a/b", "new"), File("a/c", "new")}, OverwritePolicy::kAlways);
  EXPECT_TRUE(SetImmutable(target_ + "/a/b", false));
  EXPECT_THAT(report.errors, ElementsAre(HasSubstr("a/b")));
  EXPECT_EQ(TextOf(target_ + "/a/b"), "old");
  EXPECT_EQ(TextOf(target_ + "/a/c"), "new");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(target_ + "/a"), {}), 2)
      << "no temporary file is left";
}

TEST_F(RestorerTest, ATargetThatCannotBeIsAnError) {
  EXPECT_FALSE(MakeRestorer(outside_ + "/secret", {}).ok());
  EXPECT_FALSE(MakeRestorer(outside_ + "/secret/below", {}).ok());
}

}  // namespace
}  // namespace kerf::agent
