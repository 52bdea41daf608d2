#include "client/fs/scanner.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "base/strings.h"
#include "base/test_seed.h"
#include "client/fs/path.h"
#include "client/fs/testing/memory_snapshot.h"
#include "client/fs/testing/nasty_tree.h"
#include "client/fs/testing/temporary_directory.h"
#include "gmock/gmock.h"

namespace kerf::agent {
namespace {

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
  ScanOptions options;
  options.skip_directories = {directory_ / "tree/sub/../sub", directory_ / "none"};
  EXPECT_THAT(Scan({"tree"}, options), ElementsAre("tree", "tree/a", "tree/b", "tree/sub.txt"));
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
