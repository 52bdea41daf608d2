// What is removed from a target, and what never is.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/fs/path.h"
#include "client/fs/pruner.h"
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
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::MemoryNode;
using testing::TemporaryDirectory;

class RestorePruneTest : public ::testing::Test {
 protected:
  RestorePruneTest() {
    for (const char* folder : {"/a", "/a.c", "/a/gone/deep", "/kept/sub", "/z"}) {
      std::filesystem::create_directories(target_ + folder);
    }
    for (const char* file : {"/a/1", "/a/2", "/a/3", "/a/gone/x", "/a/gone/deep/y", "/a.c/f",
                             "/kept/sub/f", "/file"}) {
      std::ofstream(target_ + file) << "text";
    }
    std::filesystem::create_directory(outside_);
    std::ofstream(outside_ + "/secret") << "secret";
    std::filesystem::create_directory_symlink(outside_, target_ + "/a/gone/link");
    std::filesystem::create_directory_symlink(outside_, target_ + "/a/link");
  }

  // Keeps the nodes; whatever is in or below one of `roots` may go.
  std::uint64_t Prune(const std::vector<MemoryNode>& nodes, const std::vector<std::string>& roots,
                      bool dry_run = false) {
    removed_.clear();
    errors_.clear();
    PruneOptions options;
    options.dry_run = dry_run;
    options.is_spared = is_spared_;
    options.spared_directory = spared_directory_;
    options.may_remove_in = [&](std::string_view directory) {
      return std::any_of(roots.begin(), roots.end(),
                         [&](const std::string& root) { return IsAtOrBelow(directory, root); });
    };
    options.on_removed = [&](const std::string& path) { removed_.push_back(path); };
    options.on_error = [&](const std::string& path, const absl::Status& status) {
      errors_.push_back(path + ": " + status.ToString());
    };
    Pruner pruner(UniqueFd(open(target_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)),
                  std::move(options));
    if (once_open_) once_open_();
    for (const MemoryNode& node : nodes) pruner.Keep(node.node);
    pruner.Finish();
    return pruner.removed_count();
  }

  TemporaryDirectory directory_;
  const std::string target_ = directory_ / "target";
  const std::string outside_ = directory_ / "outside";
  std::function<bool(std::string_view, bool)> is_spared_;
  struct stat spared_directory_{};
  // Behind the opening of the target.
  std::function<void()> once_open_;
  std::vector<std::string> removed_;
  std::vector<std::string> errors_;
};

TEST_F(RestorePruneTest, WhatTheSnapshotHasNotGoes) {
  const std::vector<MemoryNode> nodes = {Directory("a"), File("a/2", ""), Directory("kept"),
                                         Directory("kept/sub"), File("kept/sub/f", "")};
  // gone, deep, x, y and a link in gone; 1, 3, a link; a.c with a file; z; file.
  EXPECT_EQ(Prune(nodes, {""}, true), 12u);
  EXPECT_TRUE(Exists(target_ + "/a/gone/deep/y")) << "a dry run removes nothing";
  const std::vector<std::string> told = removed_;
  EXPECT_EQ(Prune(nodes, {""}), 12u);
  EXPECT_EQ(removed_, told);
  EXPECT_THAT(removed_, ElementsAre("a/1", "a/3", "a/gone", "a/link", "a.c", "file", "z"));
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_TRUE(Exists(target_ + "/a/2"));
  EXPECT_TRUE(Exists(target_ + "/kept/sub/f"));
  EXPECT_TRUE(Exists(outside_ + "/secret")) << "no symlink is followed";
}

TEST_F(RestorePruneTest, WhatIsSparedStaysWithAllThatLeadsToIt) {
  is_spared_ = [](std::string_view path, bool is_directory) {
    return is_directory ? path == "a/gone/deep" || path == "z" : path == "a/3";
  };
  const std::vector<MemoryNode> nodes = {Directory("a"), File("a/2", ""), File("file", "")};
  for (const bool dry_run : {true, false}) {
    // 1, a link, x and another link in gone; a.c with f; kept, sub and f.
    EXPECT_EQ(Prune(nodes, {""}, dry_run), 9u);
    EXPECT_THAT(removed_, ElementsAre("a/1", "a/gone/x", "a/gone/link", "a/link", "a.c", "kept"));
  }
  EXPECT_THAT(errors_, IsEmpty());
  for (const char* name : {"/a/3", "/a/gone/deep/y", "/z"}) EXPECT_TRUE(Exists(target_ + name));
  EXPECT_FALSE(Exists(target_ + "/a/gone/x"));
  // One directory, by whatever name: a store that lies in the target.
  is_spared_ = nullptr;
  ASSERT_EQ(stat((target_ + "/a/gone/deep").c_str(), &spared_directory_), 0);
  EXPECT_EQ(Prune({}, {""}), 4u);
  EXPECT_THAT(removed_, ElementsAre("a/3", "a/2", "file", "z"));
  EXPECT_TRUE(Exists(target_ + "/a/gone/deep/y"));
}

TEST_F(RestorePruneTest, OnlyBelowWhatWasBackedUp) {
  EXPECT_EQ(
      Prune({Directory("a"), Directory("a/gone"), Directory("a/gone/deep"), Directory("kept")},
            {"a/gone/deep"}),
      1u);
  EXPECT_THAT(removed_, ElementsAre("a/gone/deep/y"));
}

TEST_F(RestorePruneTest, ADirectoryThatASymlinkHasReplacedIsNotEntered) {
  const std::vector<MemoryNode> nodes = {Directory("a"), Directory("a/link")};
  Prune(nodes, {""});
  EXPECT_TRUE(Exists(outside_ + "/secret"));
  EXPECT_TRUE(Exists(target_ + "/a/link")) << "its name is the snapshot's";
}

TEST_F(RestorePruneTest, ADirectoryThatCannotBeOpenedIsTold) {
  // Of one that the snapshot has: what else is in it stays, and that must not be silent.
  std::filesystem::permissions(target_ + "/a", std::filesystem::perms::none);
  const bool is_root = geteuid() == 0;
  if (is_root && seteuid(65'534) != 0) GTEST_SKIP() << "there is no other user here";
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  once_open_ = [&] {
    if (is_root) {
      ASSERT_EQ(seteuid(65'534), 0);
    }
  };
  Prune({Directory("a"), Directory("gone"), File("file", ""), Directory("kept")}, {""});
  if (is_root) {
    ASSERT_EQ(seteuid(0), 0);
  }
  std::filesystem::permissions(target_ + "/a", std::filesystem::perms::owner_all);
  EXPECT_TRUE(Exists(target_ + "/a/1"));
  EXPECT_THAT(errors_, ::testing::Contains(::testing::AllOf(
                           HasSubstr("a: "), HasSubstr("cannot open the directory"))));
}

TEST_F(RestorePruneTest, ADeepTreeGoes) {
  std::string deep = target_ + "/z";
  for (int level = 0; level < 300; ++level) deep += "/d";
  std::filesystem::create_directories(deep);
  EXPECT_EQ(Prune({Directory("a"), Directory("a.c"), File("file", ""), Directory("kept")}, {""}),
            301u + 9u + 1u + 2u);
  EXPECT_FALSE(Exists(target_ + "/z"));
}

TEST_F(RestorePruneTest, WhatIsMountedStaysWithAllThatLeadsToIt) {
  const std::string point = target_ + "/a/gone/deep/mount";
  std::filesystem::create_directory(point);
  if (mount("none", point.c_str(), "tmpfs", 0, nullptr) != 0) {
    GTEST_SKIP() << "nothing can be mounted here";
  }
  std::ofstream(point + "/precious") << "x";
  Prune({Directory("a")}, {"a"});
  EXPECT_TRUE(Exists(point + "/precious"));
  EXPECT_FALSE(Exists(target_ + "/a/gone/x"));
  EXPECT_THAT(errors_, ElementsAre(HasSubstr("on another file system")));
  EXPECT_THAT(removed_, ElementsAre("a/1", "a/2", "a/3", "a/gone/deep/y", "a/gone/x", "a/gone/link",
                                    "a/link"));
  // Nor is what is mounted where the snapshot has a directory.
  Prune({Directory("a"), Directory("a/gone"), Directory("a/gone/deep"),
         Directory("a/gone/deep/mount")},
        {"a"});
  EXPECT_TRUE(Exists(point + "/precious"));
  EXPECT_EQ(umount(point.c_str()), 0);
}

}  // namespace
}  // namespace kerf::agent
