// Backups to servers that keep them waiting.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/strings.h"
#include "client/agent/backup/engine.h"
#include "client/cpp/testing/fake_server.h"
#include "client/store/snapshots/store.h"
#include "client/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

class SilentServerTest : public testing::Test {
 protected:
  SilentServerTest() {
    std::filesystem::create_directory(folder_.path() + "/files");
    WriteTestFile(folder_.path() + "/files/one", std::string(4096, 'x'));
  }

  // How it ends: no snapshot is left of it.
  absl::Status Backup(FakeServer::Script script) {
    const FakeServer server(std::move(script));
    options_.paths = {folder_.path() + "/files"};
    options_.servers = {server.address()};
    options_.host = "host";
    BackupProgress progress;
    const absl::Status status = RunBackup(*store_, options_, progress).status();
    EXPECT_TRUE(store_->ListSnapshots()->snapshots.empty());
    return status;
  }

  BackupOptions options_;
  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
};

// CLI-42: of all its messages none has an answer that anybody knows.
TEST_F(SilentServerTest, AServerWhoseMessagesSayNothingIsSilent) {
  options_.answer_limit = std::chrono::milliseconds(300);
  const absl::Status status = Backup([](grpc::ServerContext&, FakeServer::Stream& stream) {
    v1::UploadResponse nothing;
    nothing.add_answers();
    while (stream.Write(nothing) && stream.Write(v1::UploadResponse())) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return grpc::Status::CANCELLED;
  });
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
}

// As a kerfd that kerf has started, and that was lost too often: whatever the time is for which
// servers are tried again.
TEST_F(SilentServerTest, OneOfWhichNoneComesAgainEndsTheRun) {
  options_.server_end = [] { return absl::UnavailableError("it was lost too often"); };
  const absl::Status status = Backup([](grpc::ServerContext& context, FakeServer::Stream&) {
    return FakeServer::StaySilent(context);
  });
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_EQ(MessageOf(status), "it was lost too often");
}

}  // namespace
}  // namespace kerf::agent
