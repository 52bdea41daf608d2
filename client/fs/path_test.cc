#include "client/fs/path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

TEST(Path, TakesOnlyWhatStaysBelowItsRoot) {
  EXPECT_TRUE(CheckNodePath("a").ok());
  EXPECT_TRUE(CheckNodePath("a/b\xff\n c/...").ok());
  EXPECT_TRUE(CheckNodePath(std::string(255, 'x')).ok());
  for (const std::string& bad :
       {std::string(), std::string("/"), std::string("/a"), std::string("a/"), std::string("a//b"),
        std::string("."), std::string("a/./b"), std::string(".."), std::string("a/.."),
        std::string("../a"), std::string("a\0b", 3), std::string(256, 'x')}) {
    EXPECT_EQ(CheckNodePath(bad).code(), absl::StatusCode::kInvalidArgument) << bad;
  }
}

TEST(Path, Splits) {
  EXPECT_EQ(ParentOf("a/b/c"), "a/b");
  EXPECT_EQ(ParentOf("a"), "");
  EXPECT_EQ(NameOf("a/b/c"), "c");
  EXPECT_EQ(NameOf("a"), "a");
  EXPECT_EQ(SplitPath("/a//bc/d/"), (std::vector<std::string_view>{"a", "bc", "d"}));
  EXPECT_TRUE(SplitPath("").empty());
  EXPECT_TRUE(IsAtOrBelow("a/b", "a"));
  EXPECT_TRUE(IsAtOrBelow("a", "a"));
  EXPECT_TRUE(IsAtOrBelow("a", ""));
  EXPECT_FALSE(IsAtOrBelow("ab", "a"));
  EXPECT_FALSE(IsAtOrBelow("a", "a/b"));
}

TEST(Path, OrdersADirectoryBeforeItsChildrenAndSiblingsByByte) {
  std::vector<std::string> paths = {"b", "a.c", "a/b", "a", "a\xff", "a/b/c", "a-", "a/b.", "A"};
  std::sort(paths.begin(), paths.end(),
            [](const auto& l, const auto& r) { return ComparePaths(l, r) < 0; });
  EXPECT_EQ(paths, (std::vector<std::string>{"A", "a", "a/b", "a/b/c", "a/b.", "a-", "a.c", "a\xff",
                                             "b"}));
  EXPECT_EQ(ComparePaths("a/b", "a/b"), 0);
  EXPECT_GT(ComparePaths("ab", "a/b"), 0);
}

TEST(Path, OpenBelowFollowsNoSymlink) {
  const testing::TemporaryDirectory root;
  std::filesystem::create_directories(root / "real/inner");
  std::filesystem::create_symlink("real", root / "link");
  const UniqueFd fd(open(root.path().c_str(), O_PATH | O_DIRECTORY));
  EXPECT_TRUE(OpenBelow(fd.get(), "real/inner", O_RDONLY | O_DIRECTORY).ok());
  EXPECT_EQ(OpenBelow(fd.get(), "link/inner", O_RDONLY).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenBelow(fd.get(), "link", O_RDONLY).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(OpenBelow(fd.get(), "real/none", O_RDONLY).status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace kerf::agent
