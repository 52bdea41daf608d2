#include "client/agent/backup/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>

#include "client/agent/backup/testing/cutting_server.h"
#include "client/agent/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

class EngineTest : public testing::Test {
 protected:
  EngineTest() {
    std::filesystem::create_directory(files());
    for (const char* name : {"one", "two", "three"}) {
      WriteTestFile(files() + "/" + name, std::string(5000, name[1]));
    }
  }

  std::string files() const { return folder_.path() + "/files"; }

  absl::StatusOr<BackupResult> Backup(FakeServer::Script script) {
    const FakeServer server(std::move(script));
    BackupOptions options;
    options.paths = {files()};
    options.server = server.address();
    options.host = "host";
    options.lane_count = 2;
    options.cancelled = &cancelled_;
    options.answer_limit = answer_limit_;
    BackupProgress progress;
    return RunBackup(*store_, options, progress);
  }

  std::size_t SnapshotCount() { return store_->ListSnapshots()->snapshots.size(); }

  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
  std::atomic<bool> cancelled_ = false;
  std::chrono::milliseconds answer_limit_ = kAnswerLimit;
};

TEST_F(EngineTest, AnInterruptEndsTheWaitForASilentServer) {
  const auto result = Backup([this](grpc::ServerContext& context, FakeServer::Stream&) {
    cancelled_ = true;
    return FakeServer::StaySilent(context);
  });
  EXPECT_TRUE(absl::IsCancelled(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(EngineTest, ASilentServerEndsTheRun) {
  answer_limit_ = std::chrono::milliseconds(300);
  const auto result = Backup([](grpc::ServerContext& context, FakeServer::Stream&) {
    return FakeServer::StaySilent(context);
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(result.status())) << result.status();
  EXPECT_EQ(SnapshotCount(), 0u);
}

TEST_F(EngineTest, AnHonestServerLeavesNoWarning) {
  const auto result = Backup(CuttingServer());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  EXPECT_TRUE(result->index_warning.ok()) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

// Every file is in the snapshot: that the index was not told of it concerns later backups only.
TEST_F(EngineTest, AServerThatFailsAtTheEndIsNoFaultOfTheSnapshot) {
  CuttingServer server;
  server.lie = [](const v1::UploadFrame& frame, v1::UploadResponse& response) {
    // Not told that its file is done, the agent waits for it only when all is durable.
    if (frame.has_file_end()) response.mutable_answers()->RemoveLast();
    if (frame.has_commit()) response.add_answers()->mutable_go_away();
  };
  const auto result = Backup(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  EXPECT_EQ(result->snapshot.stats().error_count(), 0u);
  EXPECT_TRUE(absl::IsUnavailable(result->index_warning)) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

TEST_F(EngineTest, AnInterruptWhileOnlyTheLastWordIsMissingLeavesTheSnapshot) {
  CuttingServer server;
  server.on_half_close = [this] {
    cancelled_ = true;
    return false;
  };
  const auto result = Backup(server);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->warning_count, 0u);
  EXPECT_TRUE(absl::IsCancelled(result->index_warning)) << result->index_warning;
  EXPECT_EQ(SnapshotCount(), 1u);
}

}  // namespace
}  // namespace kerf::agent
