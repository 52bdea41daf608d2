#include "base/small_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/check.h"
#include "base/strings.h"

namespace kerf {
namespace {

class SmallFileTest : public testing::Test {
 protected:
  SmallFileTest() {
    // Not in TEST_TMPDIR, which may stand in a folder that is root's alone.
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    path_ = folder_ + "/inner/file";
    std::filesystem::create_directory(folder_ + "/inner");
    Mode("", 0755);
    Mode("/inner", 0755);
  }
  ~SmallFileTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void Mode(const std::string& name, mode_t mode) {
    KERF_CHECK(chmod((folder_ + name).c_str(), mode) == 0);
  }

  std::string folder_ = "/tmp/kerf-small-file-XXXXXX";
  std::string path_;
};

TEST_F(SmallFileTest, IsReadWhole) {
  Write("some text");
  EXPECT_EQ(*ReadSmallFile(path_, 9), "some text");
  EXPECT_EQ(ReadSmallFile(path_, 8).status().code(), absl::StatusCode::kInvalidArgument);
  Write("");
  EXPECT_EQ(*ReadSmallFile(path_, 8), "");
}

// Neither waited for nor taken for empty, whoever writes to it.
TEST_F(SmallFileTest, APipeIsRefused) {
  KERF_CHECK(mkfifo(path_.c_str(), 0600) == 0);
  const absl::Status status = ReadSmallFile(path_, 100).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(status),
            Cat("cannot read ", path_, ": it is a pipe or a device, and has to be a regular file"));
  std::fstream writer(path_);
  writer << "text" << std::flush;
  EXPECT_FALSE(ReadSmallFile(path_, 100).ok());
}

TEST_F(SmallFileTest, WhatIsNoneIsSaid) {
  EXPECT_EQ(ReadSmallFile(path_, 100).status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(MessageOf(ReadSmallFile(folder_, 100).status()).find("Is a directory"),
            std::string_view::npos);
  EXPECT_FALSE(ReadSmallFile("/dev/zero", 100).ok());
}

TEST_F(SmallFileTest, IsOpenToAllIfItsModeAndThoseOfAllFoldersSaySo) {
  EXPECT_FALSE(IsOpenToAll(path_)) << "there is none";
  Write("secret");
  Mode("/inner/file", 0644);
  EXPECT_TRUE(IsOpenToAll(path_));
  Mode("/inner/file", 0642);
  EXPECT_TRUE(IsOpenToAll(path_)) << "whoever writes it decides what it says";
  Mode("/inner/file", 0640);
  EXPECT_FALSE(IsOpenToAll(path_));
  Mode("/inner/file", 0644);
  Mode("/inner", 0700);
  EXPECT_FALSE(IsOpenToAll(path_));
  Mode("/inner", 0711);
  EXPECT_TRUE(IsOpenToAll(path_));
  Mode("", 0770);
  EXPECT_FALSE(IsOpenToAll(path_));
}

// It is the file's place that counts, and not that of a link to it.
TEST_F(SmallFileTest, ALinkToWhatIsOpenIsOpen) {
  Write("secret");
  Mode("/inner/file", 0644);
  std::filesystem::create_directory(folder_ + "/own");
  Mode("/own", 0700);
  std::filesystem::create_symlink(path_, folder_ + "/own/link");
  EXPECT_TRUE(IsOpenToAll(folder_ + "/own/link"));
  Mode("/inner", 0700);
  std::filesystem::create_symlink(path_, folder_ + "/link");
  EXPECT_FALSE(IsOpenToAll(folder_ + "/link"));
}

}  // namespace
}  // namespace kerf
