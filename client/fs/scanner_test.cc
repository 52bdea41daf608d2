#include "client/fs/scanner.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>

#include "base/check.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "base/unique_fd.h"
#include "client/fs/path.h"
#include "client/fs/testing/inode_reuse.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/nasty_tree.h"
#include "client/fs/testing/open_watch.h"
#include "client/fs/testing/temporary_directory.h"
#include "gmock/gmock.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemorySnapshot;
using testing::TakeSnapshot;
using testing::TemporaryDirectory;

void WriteFile(const std::string& path, const std::string& text = "x") {
  std::ofstream(path) << text;
}

// What was found below `root`, which is a node path.
std::vector<std::string> Below(const MemorySnapshot& snapshot, const std::string& root) {
  std::vector<std::string> paths;
  for (const auto& entry : snapshot.nodes) {
    if (IsAtOrBelow(entry.node.path, root) && entry.node.path != root) {
      paths.push_back(entry.node.path.substr(root.size() + 1));
    }
  }
  return paths;
}

class ScannerTest : public ::testing::Test {
 protected:
  std::vector<std::string> Scan(const std::vector<std::string>& roots, ScanOptions options = {}) {
    std::vector<std::string> absolute;
    absolute.reserve(roots.size());
    for (const std::string& root : roots) absolute.push_back(directory_ / root);
    snapshot_ = TakeSnapshot(absolute, std::move(options));
    EXPECT_THAT(snapshot_.errors, IsEmpty());
    return Below(snapshot_, directory_.path().substr(1));
  }

  void MakeSmallTree() {
    std::filesystem::create_directories(directory_ / "tree/sub/inner");
    std::filesystem::create_directories(directory_ / "tree-2");
    WriteFile(directory_ / "tree/b");
    WriteFile(directory_ / "tree/a");
    WriteFile(directory_ / "tree/sub.txt");
    WriteFile(directory_ / "tree/sub/inner/deep");
    WriteFile(directory_ / "tree/sub/x.o");
    WriteFile(directory_ / "tree-2/z");
  }

  TemporaryDirectory directory_;
  MemorySnapshot snapshot_;
};

TEST_F(ScannerTest, OrderIsDepthFirstByName) {
  MakeSmallTree();
  EXPECT_THAT(Scan({"tree"}), ElementsAre("tree", "tree/a", "tree/b", "tree/sub", "tree/sub/inner",
                                          "tree/sub/inner/deep", "tree/sub/x.o", "tree/sub.txt"));
}

TEST_F(ScannerTest, LookingAheadFindsTheSame) {
  testing::RemoveUnreadable(testing::MakeNastyTree(directory_ / "tree", TestSeed()));
  std::filesystem::create_directories(directory_ / "tree/many/left out");
  for (int number = 0; number < 300; ++number) WriteFile(directory_ / Cat("tree/many/", number));
  for (int number = 0; number < 40; ++number) {
    std::filesystem::create_directories(directory_ / Cat("tree/wide/", number, "/deep/deeper"));
  }
  ScanOptions options;
  ASSERT_TRUE(options.excludes.Add("left out/").ok());
  Scan({"tree"}, options);
  const MemorySnapshot before = std::move(snapshot_);
  // It may be as large as it likes, or be mounted where nobody answers.
  testing::OpenWatch watch;
  watch.Add(directory_ / "tree/many/left out");
  for (const unsigned thread_count : {1u, 5u}) {
    options.ahead_thread_count = thread_count;
    options.always_looks_ahead = true;
    Scan({"tree"}, options);
    ASSERT_EQ(snapshot_.nodes.size(), before.nodes.size());
    for (std::size_t index = 0; index < before.nodes.size(); ++index) {
      // Others may change what is beside this test's folder, and so the times of its parents.
      EXPECT_EQ(snapshot_.nodes[index].node.path, before.nodes[index].node.path);
      if (!IsAtOrBelow(before.nodes[index].node.path, directory_.path().substr(1))) continue;
      EXPECT_EQ(snapshot_.nodes[index].node, before.nodes[index].node);
      // The ctime of a node that has just been made is not believed yet.
      EXPECT_EQ(snapshot_.nodes[index].identity.device, before.nodes[index].identity.device);
      EXPECT_EQ(snapshot_.nodes[index].identity.inode, before.nodes[index].identity.inode);
    }
  }
  EXPECT_FALSE(watch.WasOpened());
}

TEST_F(ScannerTest, ParentsOfARootAreDirectories) {
  MakeSmallTree();
  Scan({"tree/a"});
  std::string path = directory_.NodePath("tree/a");
  for (const auto& entry : snapshot_.nodes) {
    EXPECT_TRUE(IsAtOrBelow(path, entry.node.path)) << entry.node.path;
    EXPECT_EQ(entry.node.kind, entry.node.path == path ? NodeKind::kFile : NodeKind::kDirectory);
  }
  EXPECT_EQ(snapshot_.nodes.size(), SplitPath(path).size());
}

TEST_F(ScannerTest, RootsMayRepeatAndLieInEachOther) {
  MakeSmallTree();
  const std::vector<std::string> once = Scan({"tree", "tree-2"});
  EXPECT_EQ(Scan({"tree-2", "tree/sub", "tree/", "tree", "tree/sub/inner/deep", "tree/./sub/.."}),
            once);
}

TEST_F(ScannerTest, ARootThatIsASymlinkIsASymlinkUnlessItEndsWithASlash) {
  MakeSmallTree();
  std::filesystem::create_symlink("tree-2", directory_ / "link");
  EXPECT_THAT(Scan({"link"}), ElementsAre("link"));
  EXPECT_EQ(snapshot_.nodes.back().node.kind, NodeKind::kSymlink);
  EXPECT_EQ(snapshot_.nodes.back().node.link_target, "tree-2");
  EXPECT_THAT(Scan({"link/"}), ElementsAre("tree-2", "tree-2/z"));
  EXPECT_THAT(Scan({"link/z"}), ElementsAre("tree-2", "tree-2/z"));
}

TEST_F(ScannerTest, ExcludesButNeverARoot) {
  MakeSmallTree();
  ScanOptions options;
  ASSERT_TRUE(options.excludes.Add("*.o").ok());
  ASSERT_TRUE(options.excludes.Add("inner/").ok());
  ASSERT_TRUE(options.excludes.Add("tree").ok());
  EXPECT_THAT(Scan({"tree"}, options),
              ElementsAre("tree", "tree/a", "tree/b", "tree/sub", "tree/sub.txt"));
  EXPECT_THAT(Scan({"tree", "tree/sub/inner"}, options),
              ElementsAre("tree", "tree/a", "tree/b", "tree/sub", "tree/sub/inner",
                          "tree/sub/inner/deep", "tree/sub.txt"));
}

TEST_F(ScannerTest, LeavesTheStoreOut) {
  MakeSmallTree();
  std::vector<std::string> left_out;
  ScanOptions options;
  options.on_left_out = [&](const std::string& path) { left_out.push_back(path); };
  options.skip_directories = {directory_ / "tree/sub/../sub", directory_ / "none"};
  EXPECT_THAT(Scan({"tree"}, options), ElementsAre("tree", "tree/a", "tree/b", "tree/sub.txt"));
  EXPECT_THAT(left_out, ElementsAre(directory_.NodePath("tree/sub")));
}

TEST_F(ScannerTest, SaysOfWhichDirectoriesTheContentIsOnAnotherFileSystem) {
  MakeSmallTree();
  const std::string point = directory_ / "tree/sub/inner";
  if (mount("none", point.c_str(), "tmpfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  WriteFile(point + "/mounted");
  std::vector<std::string> left_out;
  ScanOptions options;
  options.one_file_system = true;
  options.on_left_out = [&](const std::string& path) { left_out.push_back(path); };
  EXPECT_THAT(Scan({"tree/sub"}, options),
              ElementsAre("tree", "tree/sub", "tree/sub/inner", "tree/sub/x.o"));
  EXPECT_THAT(left_out, ElementsAre(directory_.NodePath("tree/sub/inner")));
  left_out.clear();
  EXPECT_THAT(Scan({"tree/sub/inner"}, options), ::testing::Contains("tree/sub/inner/mounted"));
  EXPECT_THAT(left_out, IsEmpty()) << "a path that is named is backed up";
  EXPECT_EQ(umount(point.c_str()), 0);
}

TEST_F(ScannerTest, WhatTheKernelMakesUpIsLeftOut) {
  MakeSmallTree();
  const std::string point = directory_ / "tree/sub/inner";
  if (mount("none", point.c_str(), "devpts", 0, nullptr) != 0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  std::vector<std::string> left_out;
  std::vector<std::string> pseudo;
  ScanOptions options;
  options.on_left_out = [&](const std::string& path) { left_out.push_back(path); };
  options.on_pseudo = [&](const std::string& path) { pseudo.push_back(path); };
  const auto is_there = ::testing::Contains("tree/sub/inner/ptmx");
  EXPECT_THAT(Scan({"tree/sub"}, options),
              ElementsAre("tree", "tree/sub", "tree/sub/inner", "tree/sub/x.o"));
  EXPECT_THAT(left_out, ElementsAre(directory_.NodePath("tree/sub/inner")));
  EXPECT_THAT(pseudo, ElementsAre(directory_.NodePath("tree/sub/inner")));
  // A path that is named is backed up, and nothing beside it.
  EXPECT_THAT(
      Scan({"tree/sub", "tree/sub/inner/ptmx"}, options),
      ElementsAre("tree", "tree/sub", "tree/sub/inner", "tree/sub/inner/ptmx", "tree/sub/x.o"));
  pseudo.clear();
  EXPECT_THAT(Scan({"tree/sub/inner"}, options), is_there);
  EXPECT_THAT(pseudo, IsEmpty());
  options.pseudo_file_systems = true;
  EXPECT_THAT(Scan({"tree"}, options), is_there);
  EXPECT_THAT(pseudo, IsEmpty());
  EXPECT_EQ(umount(point.c_str()), 0);
}

TEST_F(ScannerTest, FilesInMemoryAreSomebodys) {
  MakeSmallTree();
  const std::string point = directory_ / "tree/sub/inner";
  if (mount("none", point.c_str(), "tmpfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  WriteFile(point + "/mounted");
  EXPECT_THAT(Scan({"tree"}), ::testing::Contains("tree/sub/inner/mounted"));
  EXPECT_EQ(umount(point.c_str()), 0);
}

TEST_F(ScannerTest, AMissingRootIsReportedAndAllMissingIsAnError) {
  MakeSmallTree();
  MemorySnapshot snapshot = TakeSnapshot({directory_ / "none", directory_ / "tree-2"});
  ASSERT_EQ(snapshot.errors.size(), 1u);
  EXPECT_THAT(snapshot.errors[0], HasSubstr("NOT_FOUND"));
  EXPECT_NE(snapshot.Find(directory_.NodePath("tree-2/z")), nullptr);
  EXPECT_EQ(MakeScanner({directory_ / "none"}, {}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(MakeScanner({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(ScannerTest, AFileThatVanishesIsReported) {
  MakeSmallTree();
  std::vector<std::string> errors;
  ScanOptions options;
  options.on_error = [&](const std::string& path, const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    errors.push_back(path);
  };
  auto walk = OpenTreeWalk({directory_ / "tree"}, options);
  ASSERT_TRUE(walk.ok());
  ScannedNode scanned;
  std::set<std::string> seen;
  while ((*walk)->Next(scanned)) {
    seen.insert(scanned.node.path);
    if (scanned.node.path == directory_.NodePath("tree/a")) {
      std::filesystem::remove(directory_ / "tree/b");
    }
  }
  EXPECT_THAT(errors, ElementsAre(directory_ / "tree/b"));
  EXPECT_TRUE(seen.contains(directory_.NodePath("tree/sub.txt")));
}

TEST_F(ScannerTest, ADirectoryThatVanishesIsReported) {
  MakeSmallTree();
  std::filesystem::create_directory(directory_ / "tree/next");
  WriteFile(directory_ / "tree/next/x");
  std::vector<std::string> errors;
  ScanOptions options;
  options.on_error = [&](const std::string& path, const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    errors.push_back(path);
  };
  auto walk = OpenTreeWalk({directory_ / "tree", directory_ / "tree-2"}, options);
  ASSERT_TRUE(walk.ok());
  ScannedNode scanned;
  std::vector<std::string> seen;
  while ((*walk)->Next(scanned)) {
    if (IsAtOrBelow(scanned.node.path, directory_.NodePath("tree")))
      seen.push_back(scanned.node.path);
    // One that is still to come, and later the one in which it stands, with what is around it.
    if (NameOf(scanned.node.path) == "b") std::filesystem::remove_all(directory_ / "tree/next");
    if (NameOf(scanned.node.path) == "inner") std::filesystem::remove_all(directory_ / "tree/sub");
  }
  EXPECT_THAT(errors, ElementsAre(directory_ / "tree/next", directory_ / "tree/sub/inner/deep",
                                  directory_ / "tree/sub/x.o"));
  EXPECT_THAT(seen, ElementsAre(directory_.NodePath("tree"), directory_.NodePath("tree/a"),
                                directory_.NodePath("tree/b"), directory_.NodePath("tree/sub"),
                                directory_.NodePath("tree/sub/inner"),
                                directory_.NodePath("tree/sub.txt")));
  EXPECT_EQ(scanned.node.path, directory_.NodePath("tree-2/z")) << "it went on";
}

TEST_F(ScannerTest, ADirectoryThatBecomesASymlinkIsNotFollowed) {
  MakeSmallTree();
  auto walk = OpenTreeWalk({directory_ / "tree"}, {});
  ASSERT_TRUE(walk.ok());
  ScannedNode scanned;
  while ((*walk)->Next(scanned)) {
    EXPECT_NE(NameOf(scanned.node.path), "z");
    if (NameOf(scanned.node.path) != "b") continue;
    std::filesystem::remove_all(directory_ / "tree/sub");
    std::filesystem::create_symlink(directory_ / "tree-2", directory_ / "tree/sub");
  }
}

// Nor for the attributes of what is in it: those of another file would be restored, by root, to
// this one.
TEST_F(ScannerTest, AttributesAreThoseOfTheFileWhoseDirectoryBecameASymlink) {
  MakeSmallTree();
  std::filesystem::create_directory(directory_ / "elsewhere");
  const auto set = [&](const std::string& name, const std::string& value) {
    return setxattr((directory_ / name).c_str(), "user.whose", value.data(), value.size(), 0) == 0;
  };
  WriteFile(directory_ / "elsewhere/x.o");
  WriteFile(directory_ / "elsewhere/y");
  WriteFile(directory_ / "tree/sub/y");
  ASSERT_TRUE(set("tree/sub/x.o", "mine") && set("elsewhere/x.o", "theirs") &&
              set("elsewhere/y", "theirs"));
  auto walk = OpenTreeWalk({directory_ / "tree"}, {});
  ASSERT_TRUE(walk.ok());
  ScannedNode scanned;
  std::map<std::string, std::vector<Xattr>> xattrs;
  while ((*walk)->Next(scanned)) {
    const std::string name(NameOf(scanned.node.path));
    xattrs[name] = scanned.node.xattrs;
    if (name != "deep") continue;
    std::filesystem::rename(directory_ / "tree/sub", directory_ / "moved");
    std::filesystem::create_symlink(directory_ / "elsewhere", directory_ / "tree/sub");
  }
  EXPECT_THAT(xattrs["x.o"], ElementsAre(Xattr{"user.whose", "mine"}));
  EXPECT_THAT(xattrs["y"], IsEmpty());
}

// More files than the scanner walks ahead, so that what is removed lies before it.
TEST_F(ScannerTest, WhatVanishesIsReportedInItsPlaceHoweverFarTheWalkIsAhead) {
  std::filesystem::create_directory(directory_ / "tree");
  const auto name = [](int number) { return Cat("f", 10'000 + number); };
  for (int number = 0; number < 3'000; ++number) WriteFile(directory_ / Cat("tree/", name(number)));
  std::vector<std::string> errors;
  ScannedNode scanned;
  ScanOptions options;
  options.on_error = [&](const std::string& path, const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
    EXPECT_EQ(NameOf(scanned.node.path), name(2'599));
    errors.push_back(path);
  };
  auto scanner = MakeScanner({directory_ / "tree"}, options);
  ASSERT_TRUE(scanner.ok());
  std::vector<std::string> seen;
  while ((*scanner)->Next(scanned)) {
    if (!IsAtOrBelow(scanned.node.path, directory_.NodePath("tree"))) continue;
    seen.push_back(scanned.node.path);
    if (seen.size() != 2) continue;
    for (int number = 2'600; number < 2'900; ++number) {
      std::filesystem::remove(directory_ / Cat("tree/", name(number)));
    }
  }
  std::vector<std::string> expected = {directory_.NodePath("tree")};
  std::vector<std::string> expected_errors;
  for (int number = 0; number < 3'000; ++number) {
    const std::string path = Cat("tree/", name(number));
    if (number < 2'600 || number >= 2'900) {
      expected.push_back(directory_.NodePath(path));
    } else {
      expected_errors.push_back(directory_ / path);
    }
  }
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(errors, expected_errors);
}

TEST_F(ScannerTest, EndsInTheMiddle) {
  std::filesystem::create_directory(directory_ / "tree");
  for (int number = 0; number < 3'000; ++number) WriteFile(directory_ / Cat("tree/", number));
  for (const int taken : {0, 1, 200}) {
    auto scanner = MakeScanner({directory_ / "tree"}, {});
    ASSERT_TRUE(scanner.ok());
    ScannedNode scanned;
    for (int count = 0; count < taken; ++count) EXPECT_TRUE((*scanner)->Next(scanned));
  }
}

TEST_F(ScannerTest, HardLinksPointToTheFirstThatWasStored) {
  MakeSmallTree();
  std::filesystem::create_hard_link(directory_ / "tree/b", directory_ / "tree/c");
  std::filesystem::create_hard_link(directory_ / "tree/b", directory_ / "tree-2/d");
  Scan({"tree", "tree-2"});
  const std::string first = directory_.NodePath("tree/b");
  EXPECT_EQ(snapshot_.Find(first)->node.hard_link_to, "");
  EXPECT_EQ(snapshot_.Find(directory_.NodePath("tree/c"))->node.hard_link_to, first);
  EXPECT_EQ(snapshot_.Find(directory_.NodePath("tree-2/d"))->node.hard_link_to, first);

  auto scanner = MakeScanner({directory_ / "tree", directory_ / "tree-2"}, {});
  ASSERT_TRUE(scanner.ok());
  ScannedNode scanned;
  while ((*scanner)->Next(scanned)) {
    if (scanned.node.path == first) (*scanner)->ForgetHardLink(scanned.identity);
    if (scanned.node.path == directory_.NodePath("tree/c")) {
      EXPECT_EQ(scanned.node.hard_link_to, "");
    }
    if (scanned.node.path == directory_.NodePath("tree-2/d")) {
      EXPECT_EQ(scanned.node.hard_link_to, directory_.NodePath("tree/c"));
    }
  }
}

// Of a file with two names both go while the walk is under way, and a new one gets its number.
TEST_F(ScannerTest, AFileThatGotTheNumberOfAnotherOneIsNoHardLinkOfIt) {
  std::filesystem::create_directories(directory_ / "tree/z");
  WriteFile(directory_ / "tree/a1");
  // Where the walk does not come, so that it waits for the second one until its end.
  std::filesystem::create_hard_link(directory_ / "tree/a1", directory_ / "a2");
  // More than the scanner walks ahead.
  WriteFile(directory_ / "tree/f");
  for (int number = 0; number < 3'000; ++number) {
    std::filesystem::create_hard_link(directory_ / "tree/f", directory_ / Cat("tree/f", number));
  }
  auto scanner = MakeScanner({directory_ / "tree"}, {});
  ASSERT_TRUE(scanner.ok());
  ScannedNode scanned;
  int seen_count = 0;
  while ((*scanner)->Next(scanned)) {
    const std::string_view name = NameOf(scanned.node.path);
    if (name == "a1") {
      std::filesystem::remove(directory_ / "tree/a1");
      std::filesystem::remove(directory_ / "a2");
      // Where the first one was: numbers are given by folder.
      if (!testing::MakeFileOfInode(directory_ / "tree/new", scanned.identity.inode)) {
        GTEST_SKIP() << "this file system does not give numbers again";
      }
      std::filesystem::rename(directory_ / "tree/new", directory_ / "tree/z/z1");
      std::filesystem::create_hard_link(directory_ / "tree/z/z1", directory_ / "tree/z/z2");
    }
    if (name == "z1") {
      EXPECT_EQ(scanned.node.hard_link_to, "");
      EXPECT_EQ(scanned.other_name_count, 1u);
      ++seen_count;
    }
    if (name == "z2") {
      EXPECT_EQ(scanned.node.hard_link_to, directory_.NodePath("tree/z/z1"));
      ++seen_count;
    }
  }
  EXPECT_EQ(seen_count, 2);
}

TEST(IncarnationTest, IsTheSameOnlyIfThatIsCertain) {
  const Incarnation settled{{1, 2, {1000, 5}}, "", true};
  const Incarnation fresh{{1, 2, {1000, 5}}, "", false};
  const Incarnation later{{1, 2, {1000, 6}}, "", true};
  EXPECT_TRUE(IsSameFile(settled, settled));
  EXPECT_FALSE(IsSameFile(settled, later)) << "it may have been changed, or be another one";
  EXPECT_FALSE(IsSameFile(fresh, settled)) << "another one may have been made in the same tick";
  const Incarnation known{{1, 2, {1000, 5}}, "handle", false};
  EXPECT_TRUE(IsSameFile(known, {{1, 2, {2000, 0}}, "handle", false})) << "it was changed";
  EXPECT_FALSE(IsSameFile(known, {{1, 2, {1000, 5}}, "other", false}));
  EXPECT_FALSE(IsSameFile(known, {{1, 3, {1000, 5}}, "handle", false}));
  EXPECT_FALSE(IsSameFile(known, {{2, 2, {1000, 5}}, "handle", false}));
}

TEST_F(ScannerTest, WhatIsNoFileHasHardLinksToo) {
  std::filesystem::create_directory(directory_ / "tree");
  std::filesystem::create_symlink("nowhere", directory_ / "tree/link-1");
  ASSERT_EQ(mkfifo((directory_ / "tree/fifo-1").c_str(), 0600), 0);
  ASSERT_EQ(mknod((directory_ / "tree/socket-1").c_str(), S_IFSOCK | 0600, 0), 0);
  for (const std::string kind : {"link", "fifo", "socket"}) {
    ASSERT_EQ(link((directory_ / "tree/" + kind + "-1").c_str(),
                   (directory_ / "tree/" + kind + "-2").c_str()),
              0);
  }
  Scan({"tree"});
  for (const std::string kind : {"link", "fifo", "socket"}) {
    const std::string first = directory_.NodePath("tree/" + kind + "-1");
    EXPECT_EQ(snapshot_.Find(first)->node.hard_link_to, "");
    EXPECT_EQ(snapshot_.Find(directory_.NodePath("tree/" + kind + "-2"))->node.hard_link_to, first);
  }
  EXPECT_EQ(snapshot_.Find(directory_.NodePath("tree/link-2"))->node.link_target, "nowhere");
  for (const auto& entry : snapshot_.nodes) {
    EXPECT_TRUE(entry.node.kind != NodeKind::kDirectory || entry.node.hard_link_to.empty());
  }
}

// More levels than stay open: those further up are opened again on the way back.
class DeepScannerTest : public ScannerTest {
 protected:
  static constexpr int kLevels = 100;

  std::string Level(int level) const {
    std::string path = directory_ / "tree";
    for (int i = 0; i < level; ++i) path += "/s";
    return path;
  }
  void MakeLevels() {
    for (int level = 0; level <= kLevels; ++level) {
      std::filesystem::create_directory(Level(level));
      WriteFile(Level(level) + "/t");
    }
  }
  // The levels whose file "t" was found; calls `change` at the deepest of them.
  std::vector<int> Walk(const std::function<void()>& change) {
    ScanOptions options;
    // They are read by the whole path.
    options.read_xattrs = false;
    options.on_error = [&](const std::string& path, const absl::Status& status) {
      errors_.push_back(Cat(path, ": ", std::string_view(status.ToString())));
    };
    auto walk = OpenTreeWalk({directory_ / "tree"}, options);
    EXPECT_TRUE(walk.ok());
    std::vector<int> levels;
    ScannedNode scanned;
    while ((*walk)->Next(scanned)) {
      if (NameOf(scanned.node.path) != "t") continue;
      sizes_.push_back(scanned.node.size_bytes);
      levels.push_back(
          static_cast<int>((scanned.node.path.size() - directory_.NodePath("tree/t").size()) / 2));
      if (levels.size() == 1) change();
    }
    return levels;
  }

  std::vector<std::string> errors_;
  std::vector<std::uint64_t> sizes_;
};

TEST_F(DeepScannerTest, AllLevelsAreFoundOnTheWayBack) {
  MakeLevels();
  const std::vector<int> levels = Walk([] {});
  EXPECT_THAT(errors_, IsEmpty());
  ASSERT_EQ(levels.size(), std::size_t{kLevels} + 1);
  for (int level = 0; level <= kLevels; ++level) EXPECT_EQ(levels[level], kLevels - level);
}

// From the root downwards each level on the way back would cost as much as all above it: 64 times
// the work for 8 times the levels.
TEST_F(DeepScannerTest, ManyLevelsCostWhatTheyAreMany) {
  const auto cost_ns = [this](int level_count) {
    const std::string root = directory_ / Cat("deep-", level_count);
    KERF_CHECK(mkdir(root.c_str(), 0700) == 0);
    UniqueFd at(open(root.c_str(), O_RDONLY | O_DIRECTORY));
    for (int level = 0; level < level_count; ++level) {
      KERF_CHECK(mkdirat(at.get(), "s", 0700) == 0);
      at = UniqueFd(openat(at.get(), "s", O_RDONLY | O_DIRECTORY));
    }
    std::int64_t least_ns = INT64_MAX;
    for (int round = 0; round < 3; ++round) {
      timespec before{};
      timespec after{};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
      auto walk = OpenTreeWalk({root}, {});
      KERF_CHECK(walk.ok());
      ScannedNode scanned;
      while ((*walk)->Next(scanned)) {
      }
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
      least_ns = std::min<std::int64_t>(least_ns, (after.tv_sec - before.tv_sec) * 1'000'000'000 +
                                                      after.tv_nsec - before.tv_nsec);
    }
    return least_ns;
  };
  const std::int64_t few_ns = cost_ns(100);
  EXPECT_LT(cost_ns(800), 24 * few_ns);
}

TEST_F(DeepScannerTest, ADirectoryThatWasMovedIsFoundAgain) {
  MakeLevels();
  // The way back from level 3 leads elsewhere; level 2 has stayed where it was.
  const std::vector<int> levels =
      Walk([this] { std::filesystem::rename(Level(3), directory_ / "away"); });
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_EQ(levels.size(), std::size_t{kLevels} + 1);
}

TEST_F(DeepScannerTest, AnotherDirectoryInThePlaceOfOneIsNotTakenForIt) {
  MakeLevels();
  const std::vector<int> levels = Walk([this] {
    std::filesystem::rename(Level(3), directory_ / "away");
    std::filesystem::rename(Level(2), directory_ / "away-2");
    std::filesystem::create_directory(Level(2));
    WriteFile(Level(2) + "/t", "of another directory");
  });
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_THAT(errors_[0], AllOf(HasSubstr("replaced by another directory"), HasSubstr(Level(2))));
  EXPECT_THAT(sizes_, ::testing::Each(1u));
  EXPECT_THAT(levels, ::testing::Not(::testing::Contains(2)));
  EXPECT_THAT(levels, ::testing::Contains(1));
}

TEST_F(ScannerTest, XattrsOnlyIfAsked) {
  testing::RemoveUnreadable(testing::MakeNastyTree(directory_ / "nasty", TestSeed()));
  ScanOptions options;
  options.read_xattrs = false;
  Scan({"nasty"}, options);
  for (const auto& entry : snapshot_.nodes) EXPECT_THAT(entry.node.xattrs, IsEmpty());
}

TEST_F(ScannerTest, NastyTreeComesInOrderWithoutErrors) {
  const auto tree = testing::MakeNastyTree(directory_ / "nasty", TestSeed());
  testing::RemoveUnreadable(tree);
  Scan({"nasty"});
  ASSERT_GT(snapshot_.nodes.size(), 450u);
  for (std::size_t i = 1; i < snapshot_.nodes.size(); ++i) {
    const std::string& before = snapshot_.nodes[i - 1].node.path;
    const std::string& path = snapshot_.nodes[i].node.path;
    EXPECT_LT(ComparePaths(before, path), 0) << before << " before " << path;
    EXPECT_TRUE(CheckNodePath(path).ok()) << path;
  }
}

}  // namespace
}  // namespace kerf::agent
