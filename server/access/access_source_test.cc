#include "server/access/access_source.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::access {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kInterval{10};
// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};
constexpr char kOne[] = "[[identity]]\nname = \"kerf://one\"\n";
constexpr char kTwo[] = "[[identity]]\nname = \"kerf://two\"\n";
constexpr char kIssuer[] =
    "[[issuer]]\nname = \"https://i\"\naudience = \"kerf\"\nkeys = \"keys.json\"\n";
constexpr char kKey[] =
    R"({"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]})";

class AccessSourceTest : public ::testing::Test {
 protected:
  AccessSourceTest() { std::filesystem::create_directories(folder_); }
  ~AccessSourceTest() override { std::filesystem::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ + "/" + name + ".new") << text;
    std::filesystem::rename(folder_ + "/" + name + ".new", folder_ + "/" + name);
  }
  absl::Status Open(milliseconds interval = kInterval) {
    auto opened = AccessSource::Open(
        folder_ + "/access.toml",
        [this](const absl::Status& status, const AccessState& /*state*/) {
          const std::lock_guard lock(mutex_);
          told_.push_back(status);
          changed_.notify_all();
        },
        interval);
    if (!opened.ok()) return opened.status();
    source_ = *std::move(opened);
    return absl::OkStatus();
  }
  // The nth that it tells, from 1.
  absl::Status Told(std::size_t nth) {
    std::unique_lock lock(mutex_);
    const bool is_there = changed_.wait_for(lock, kPatience, [&] { return told_.size() >= nth; });
    return is_there ? told_[nth - 1] : absl::DeadlineExceededError("it tells nothing");
  }
  bool Knows(std::string_view name) { return source_->current()->rules.Find(name) != nullptr; }

  const std::string folder_ = Cat(std::getenv("TEST_TMPDIR"), "/",
                                  ::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<absl::Status> told_;
  std::unique_ptr<AccessSource> source_;
};

TEST_F(AccessSourceTest, AChangeIsInForce) {
  Write("access.toml", kOne);
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(Knows("kerf://one"));
  Write("access.toml", kTwo);
  EXPECT_TRUE(Told(1).ok());
  EXPECT_FALSE(Knows("kerf://one"));
  EXPECT_TRUE(Knows("kerf://two"));
}

TEST_F(AccessSourceTest, WhatIsNoneIsSaidOnceAndChangesNothing) {
  Write("access.toml", kOne);
  ASSERT_TRUE(Open().ok());
  Write("access.toml", "[[identity]]\n");
  EXPECT_NE(MessageOf(Told(1)).find("access.toml: line 1: there is no name"), std::string::npos);
  std::filesystem::remove(folder_ + "/access.toml");
  EXPECT_EQ(Told(2).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(Knows("kerf://one"));
  Write("access.toml", kTwo);
  EXPECT_TRUE(Told(3).ok());
  EXPECT_TRUE(Knows("kerf://two"));
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(told_.size(), 3u);
}

// By who says that it is written: without a look before, and without a second one.
TEST_F(AccessSourceTest, IsReadAtOnceWhereItIsAskedTo) {
  Write("access.toml", kOne);
  ASSERT_TRUE(Open(std::chrono::hours(1)).ok());
  EXPECT_TRUE(source_->Reload().ok());
  Write("access.toml", kTwo);
  EXPECT_TRUE(source_->Reload().ok());
  EXPECT_TRUE(Knows("kerf://two"));
  EXPECT_FALSE(Knows("kerf://one"));
  // Said each time that it is asked, and told of once.
  Write("access.toml", "[[identity]]\n");
  for (int ask = 0; ask < 2; ++ask) {
    EXPECT_EQ(source_->Reload().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(Knows("kerf://two"));
  Write("access.toml", kTwo);
  EXPECT_TRUE(source_->Reload().ok());
  const std::lock_guard lock(mutex_);
  ASSERT_EQ(told_.size(), 3u);
  EXPECT_EQ(told_[1].code(), absl::StatusCode::kInvalidArgument);
}

// Where it is written in its place, and not renamed into it.
TEST_F(AccessSourceTest, AFileThatIsEmptyForAMomentChangesNothing) {
  Write("access.toml", kOne);
  ASSERT_TRUE(Open().ok());
  std::filesystem::resize_file(folder_ + "/access.toml", 0);
  EXPECT_FALSE(Told(1).ok());
  EXPECT_TRUE(Knows("kerf://one"));
  Write("access.toml", kTwo);
  EXPECT_TRUE(Told(2).ok());
  EXPECT_TRUE(Knows("kerf://two"));
}

// It is not waited for either, and what has been written to it is not half taken.
TEST_F(AccessSourceTest, APipeInItsPlaceChangesNothing) {
  Write("access.toml", kOne);
  ASSERT_TRUE(Open().ok());
  const std::string pipe = folder_ + "/access.toml";
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // There may have been a moment without any.
  absl::Status told = Told(1);
  if (told.code() == absl::StatusCode::kNotFound) told = Told(2);
  EXPECT_EQ(told.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(MessageOf(told).find("access.toml: it is a pipe"), std::string_view::npos) << told;
  EXPECT_TRUE(Knows("kerf://one"));
  source_ = nullptr;
  EXPECT_EQ(Open().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(AccessSourceTest, DoesNotBeginWithoutAGoodFile) {
  EXPECT_EQ(Open().code(), absl::StatusCode::kNotFound);
  Write("access.toml", "");
  EXPECT_NE(MessageOf(Open()).find("access.toml: it names nobody"), std::string_view::npos);
  Write("access.toml", "x");
  EXPECT_EQ(Open().code(), absl::StatusCode::kInvalidArgument);
  Write("access.toml", Cat(kOne, kIssuer));
  EXPECT_EQ(Open().code(), absl::StatusCode::kNotFound);
  Write("keys.json", "{}");
  const absl::Status wrong = Open();
  EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(MessageOf(wrong).find("keys.json: no set of public keys"), std::string::npos);
}

TEST_F(AccessSourceTest, KeysOfIssuersAreReadAnewToo) {
  Write("access.toml", Cat(kOne, kIssuer));
  Write("keys.json", kKey);
  ASSERT_TRUE(Open().ok());
  ASSERT_EQ(source_->current()->issuers.size(), 1u);
  EXPECT_EQ(source_->current()->issuers[0].keys.keys()[0].id, "");
  std::string named = kKey;
  named.insert(named.size() - 3, R"(,"kid":"b")");
  Write("keys.json", named);
  EXPECT_TRUE(Told(1).ok());
  EXPECT_EQ(source_->current()->issuers[0].keys.keys()[0].id, "b");
  std::filesystem::remove(folder_ + "/keys.json");
  EXPECT_EQ(Told(2).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(source_->current()->issuers[0].keys.keys()[0].id, "b");
}

}  // namespace
}  // namespace kerf::access
