// Backups of what a pipe gives, whose end says nothing of whether that was all.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/strings.h"
#include "client/agent/backup/engine.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;
using ::testing::HasSubstr;

class StreamBackupTest : public ::testing::Test {
 protected:
  // Of what a pipe gives that `content` was written to.
  absl::StatusOr<BackupResult> Backup(std::string_view content) {
    std::array<int, 2> ends = {-1, -1};
    EXPECT_EQ(pipe(ends.data()), 0);
    EXPECT_EQ(write(ends[1], content.data(), content.size()), static_cast<ssize_t>(content.size()));
    close(ends[1]);
    const FakeServer server(CuttingServer{});
    BackupOptions options;
    options.paths = {"/dump"};
    options.stream_fd = ends[0];
    options.stream_end = stream_end_;
    options.servers = {server.address()};
    options.host = "host";
    BackupProgress progress;
    auto result = RunBackup(*store_, options, progress);
    close(ends[0]);
    return result;
  }

  std::size_t SnapshotCount() { return store_->ListSnapshots()->snapshots.size(); }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
  decltype(BackupOptions::stream_end) stream_end_;
};

TEST_F(StreamBackupTest, WhatNobodyVouchesForIsKept) {
  const auto result = Backup(std::string(20'000, 'x'));
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->snapshot.stats().total_bytes(), 20'000u);
  EXPECT_EQ(SnapshotCount(), 1u);
}

TEST_F(StreamBackupTest, NoSnapshotIsMadeOfWhatIsSaidToBeAPart) {
  stream_end_ = [](const std::function<absl::Status()>&) {
    return absl::FailedPreconditionError("it has failed");
  };
  for (const std::string& content : {std::string(), std::string(20'000, 'x')}) {
    const auto result = Backup(content);
    EXPECT_TRUE(absl::IsFailedPrecondition(result.status())) << result.status();
    EXPECT_THAT(std::string(MessageOf(result.status())), HasSubstr("it has failed"));
  }
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(StreamBackupTest, WhoVouchesForItIsAskedOnceAllIsRead) {
  int asked = 0;
  stream_end_ = [&asked](const std::function<absl::Status()>& failure) {
    ++asked;
    return failure();
  };
  EXPECT_TRUE(Backup("content").ok());
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(SnapshotCount(), 1u);
  // A command that says nothing has probably written elsewhere.
  EXPECT_TRUE(absl::IsFailedPrecondition(Backup("").status()));
  EXPECT_EQ(SnapshotCount(), 1u);
}

}  // namespace
}  // namespace kerf::agent
