#include "client/fs/path.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <string>

#include "client/fs/os_error.h"
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

// Whoever meets it ends with "no room", and restores nothing more.
TEST(OsErrorTest, OnlyADiskWithoutRoomIsOne) {
  for (const int error : {ENOSPC, EDQUOT}) {
    EXPECT_TRUE(absl::IsResourceExhausted(OsError(error, "cannot write", "/x")));
  }
  for (const int error : {EMFILE, ENFILE, ENOMEM, EMLINK}) {
    const absl::Status status = OsError(error, "cannot link", "/x");
    EXPECT_TRUE(absl::IsUnknown(status)) << status;
    EXPECT_NE(status.message().find("cannot link /x: "), absl::string_view::npos) << status;
  }
  EXPECT_TRUE(absl::IsNotFound(OsError(ENOENT, "cannot open", "/x")));
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

// In one call, and where the kernel does not have that.
class OpenBelowTest : public ::testing::TestWithParam<decltype(&OpenBelow)> {};

TEST_P(OpenBelowTest, FollowsNoSymlink) {
  const testing::TemporaryDirectory root;
  std::filesystem::create_directories(root / "real/inner");
  std::filesystem::create_symlink("real", root / "link");
  const UniqueFd fd(open(root.path().c_str(), O_PATH | O_DIRECTORY));
  const auto code = [&](const char* path, int flags) {
    return GetParam()(fd.get(), path, flags).status().code();
  };
  EXPECT_EQ(code("real/inner", O_RDONLY | O_DIRECTORY), absl::StatusCode::kOk);
  EXPECT_EQ(code("link/inner", O_RDONLY), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code("link", O_RDONLY), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code("link", O_RDONLY | O_DIRECTORY), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(code("real/none", O_RDONLY), absl::StatusCode::kNotFound);
  // A handle stands for the symlink itself.
  EXPECT_EQ(code("link", O_PATH), absl::StatusCode::kOk);
  EXPECT_NE(code("/", O_PATH), absl::StatusCode::kOk);
}

TEST_P(OpenBelowTest, NoPathIsTooLong) {
  const testing::TemporaryDirectory root;
  const UniqueFd top(open(root.path().c_str(), O_PATH | O_DIRECTORY));
  const std::string name(250, 'n');
  std::string path;
  UniqueFd at(dup(top.get()));
  for (int level = 0; level < 40; ++level) {
    ASSERT_EQ(mkdirat(at.get(), name.c_str(), 0700), 0);
    at = UniqueFd(openat(at.get(), name.c_str(), O_PATH | O_DIRECTORY));
    path += (level == 0 ? "" : "/") + name;
    // Of a length that a call takes just so, too.
    EXPECT_TRUE(GetParam()(top.get(), path, O_PATH | O_DIRECTORY).ok()) << path.size();
  }
  ASSERT_EQ(symlinkat(".", at.get(), "link"), 0);
  EXPECT_TRUE(GetParam()(top.get(), path + "/link", O_PATH).ok());
  EXPECT_FALSE(GetParam()(top.get(), path + "/link/link", O_PATH).ok());
}

INSTANTIATE_TEST_SUITE_P(Ways, OpenBelowTest, ::testing::Values(&OpenBelow, &OpenBelowStepByStep));

}  // namespace
}  // namespace kerf::agent
