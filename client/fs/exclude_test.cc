#include "client/fs/exclude.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "base/strings.h"
#include "client/fs/testing/temporary_directory.h"

namespace kerf::agent {
namespace {

bool Excludes(std::string_view pattern, std::string_view path, bool is_directory = false) {
  ExcludePatterns patterns;
  EXPECT_TRUE(patterns.Add(pattern).ok());
  return patterns.Matches(path, is_directory);
}

TEST(Exclude, ANameMatchesAtAnyDepthAndOnlyWhole) {
  EXPECT_TRUE(Excludes("*.o", "a.o"));
  EXPECT_TRUE(Excludes("*.o", "home/x/a.o"));
  EXPECT_FALSE(Excludes("*.o", "home/a.o/x"));
  EXPECT_FALSE(Excludes("cache", "home/cached"));
  EXPECT_TRUE(Excludes("c?che", "home/cache"));
  EXPECT_TRUE(Excludes("[a-c]x", "b/bx"));
  EXPECT_TRUE(Excludes("\\*", "home/*"));
  EXPECT_FALSE(Excludes("\\*", "home/a"));
  EXPECT_TRUE(Excludes("*", ".hidden"));
}

TEST(Exclude, ALeadingSlashAnchors) {
  EXPECT_TRUE(Excludes("/home/*/.cache", "home/ann/.cache"));
  EXPECT_FALSE(Excludes("/home/*/.cache", "mnt/home/ann/.cache"));
  EXPECT_FALSE(Excludes("/home/*/.cache", "home/ann/x/.cache"));
  EXPECT_TRUE(Excludes("/home/**/.cache", "home/ann/x/.cache"));
  EXPECT_TRUE(Excludes("/home/**/.cache", "home/.cache"));
}

TEST(Exclude, AnInnerSlashMatchesTheLastComponents) {
  EXPECT_TRUE(Excludes("build/out", "x/build/out"));
  EXPECT_FALSE(Excludes("build/out", "x/build/out/y"));
  EXPECT_FALSE(Excludes("build/out", "x/build/y/out"));
  EXPECT_TRUE(Excludes("build/**/out", "x/build/y/z/out"));
}

TEST(Exclude, ATrailingSlashIsForDirectories) {
  EXPECT_TRUE(Excludes("tmp/", "a/tmp", true));
  EXPECT_FALSE(Excludes("tmp/", "a/tmp", false));
}

TEST(Exclude, ManyStarsEndSoon) {
  std::string pattern = "/";
  std::string path = "a";
  for (int i = 0; i < 40; ++i) pattern += "**/a/";
  for (int i = 0; i < 2000; ++i) path += "/a";
  EXPECT_FALSE(Excludes(pattern + "b", path));
}

TEST(Exclude, RefusesWhatMatchesNothing) {
  ExcludePatterns patterns;
  EXPECT_FALSE(patterns.Add("").ok());
  EXPECT_FALSE(patterns.Add("//").ok());
}

TEST(Exclude, RefusesWhatIsBroken) {
  for (const std::string pattern : {"[", "a[b", "[]", "[!]", "[a-", "[a\\]", "a/[b/c]", "x\\",
                                    "[z-a]", "[[:digit:]", "[[:number:]]", "[[:]"}) {
    ExcludePatterns patterns;
    const absl::Status status = patterns.Add(pattern);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << pattern;
    EXPECT_NE(MessageOf(status).find(Cat("'", pattern, "'")), std::string_view::npos) << status;
  }
}

TEST(Exclude, BracketsMeanWhatTheyMeanInAShell) {
  EXPECT_TRUE(Excludes("\\[", "["));
  EXPECT_TRUE(Excludes("[[]", "["));
  EXPECT_TRUE(Excludes("[]]", "]"));
  EXPECT_TRUE(Excludes("[!]]x", "ax"));
  EXPECT_FALSE(Excludes("[!]]x", "]x"));
  EXPECT_TRUE(Excludes("[a\\]]", "]"));
  EXPECT_TRUE(Excludes("[a-]", "-"));
  EXPECT_TRUE(Excludes("[[:digit:]x]", "7"));
  EXPECT_TRUE(Excludes("[[:digit:]x]", "x"));
  EXPECT_FALSE(Excludes("[[:digit:]x]", "y"));
  EXPECT_TRUE(Excludes("]", "]"));
}

TEST(Exclude, ReadsAFile) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory / "excludes";
  std::ofstream(file) << "# comment\n\n*.o\r\n/tmp/\n";
  ExcludePatterns patterns;
  ASSERT_TRUE(patterns.AddFile(file).ok());
  EXPECT_TRUE(patterns.Matches("x/a.o", false));
  EXPECT_TRUE(patterns.Matches("tmp", true));
  EXPECT_FALSE(patterns.Matches("# comment", false));
  std::ofstream(file) << "*.o\n/\n";
  const absl::Status status = patterns.AddFile(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(MessageOf(status).find(":2: "), std::string_view::npos) << status;
  std::remove(file.c_str());
  EXPECT_EQ(patterns.AddFile(file).code(), absl::StatusCode::kNotFound);
}

// A restore with --delete takes as many, and no more.
TEST(Exclude, OneTooManyIsRefused) {
  const testing::TemporaryDirectory directory;
  const std::string file = directory / "excludes";
  {
    std::ofstream lines(file);
    for (std::size_t number = 0; number <= kMaxExcludes; ++number) lines << "p" << number << "\n";
  }
  ExcludePatterns patterns;
  const absl::Status status = patterns.AddFile(file);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(MessageOf(status).find("65536 are possible"), std::string_view::npos) << status;
  EXPECT_NE(MessageOf(status).find(":65537: "), std::string_view::npos) << status;
  EXPECT_EQ(patterns.texts().size(), std::size_t{1} << 16);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace kerf::agent
