#include "server/hints/run_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "base/strings.h"

namespace kerf {
namespace {

std::string FileOf(std::string_view content, mode_t mode) {
  const char* const folder = std::getenv("TEST_TMPDIR");
  const std::string path = Cat(folder == nullptr ? "/tmp" : folder, "/run_key_", getpid());
  unlink(path.c_str());
  std::ofstream(path) << content;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

TEST(RunKeyFile, RandomKeysDiffer) {
  EXPECT_NE(MakeRandomRunKey().bytes, MakeRandomRunKey().bytes);
  EXPECT_NE(MakeRandomRunKey().bytes, RunKey().bytes);
}

TEST(RunKeyFile, ItsBytesAreTheKey) {
  const std::string secret("0123456789\0abcdef\n0123456789abcd", 32);
  for (const mode_t mode : {0600, 0400, 0640, 0440}) {
    const auto key = ReadRunKey(FileOf(secret, mode));
    ASSERT_TRUE(key.ok()) << key.status();
    EXPECT_EQ(std::string(key->bytes.begin(), key->bytes.end()), secret);
  }
}

TEST(RunKeyFile, WhatOthersMayUseIsRefused) {
  const std::string secret(32, 's');
  for (const mode_t mode : {0604, 0620, 0650, 0602, 0644, 0777}) {
    const auto key = ReadRunKey(FileOf(secret, mode));
    EXPECT_EQ(key.status().code(), absl::StatusCode::kPermissionDenied) << key.status();
  }
}

TEST(RunKeyFile, WhatIsNoKeyIsRefusedAndNotTold) {
  for (const std::size_t size : {0, 31, 33, 64, 10'000}) {
    const auto key = ReadRunKey(FileOf(std::string(size, 's'), 0600));
    EXPECT_EQ(key.status().code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_EQ(key.status().message().find("sss"), absl::string_view::npos);
  }
  const std::string path = FileOf("", 0600);
  unlink(path.c_str());
  EXPECT_EQ(ReadRunKey(path).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ReadRunKey("/").status().code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(ReadRunKey(path).status().code(), absl::StatusCode::kInvalidArgument);
  unlink(path.c_str());
}

}  // namespace
}  // namespace kerf
