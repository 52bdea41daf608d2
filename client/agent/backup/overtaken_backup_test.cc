// Backups whose servers say that the index has moved on meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "client/agent/backup/engine.h"
#include "client/agent/backup/testing/cutting_server.h"
#include "client/store/format/file_hook.h"
#include "client/store/testing/test_store.h"
#include "kernels/profile.h"

namespace kerf::agent {
namespace {

using client::FakeServer;

// Takes the pack of a chunk away whenever a snapshot becomes pending, before.
class PackThief final : public FileHook {
 public:
  PackThief(const Store& store, const std::string& chunk) : store_(store), chunk_(RefOf(chunk)) {
    SetFileHookForTest(this);
  }
  ~PackThief() override { SetFileHookForTest(nullptr); }

  absl::Status Before(const FileOperation& operation) override {
    const bool publishes = operation.kind == FileOperation::Kind::kRename &&
                           operation.to.find("/pending/") != std::string_view::npos;
    if (!publishes) return absl::OkStatus();
    ChunkIndex packs(store_.packs_directory());
    EXPECT_TRUE(packs.Refresh().ok());
    const auto place = packs.Locate(chunk_.digest);
    EXPECT_TRUE(place.has_value());
    if (place.has_value()) std::filesystem::remove(packs.PackPath(place->pack->id));
    return absl::OkStatus();
  }

 private:
  const Store& store_;
  const ChunkRef chunk_;
};

class OvertakenBackupTest : public testing::Test {
 protected:
  OvertakenBackupTest() {
    std::filesystem::create_directory(folder_.path() + "/files");
    for (const char* name : {"one", "two", "three"}) {
      WriteTestFile(folder_.path() + "/files/" + name, std::string(4096, name[1]));
    }
  }

  // Of a server that says that its index is at this epoch.
  absl::Status Backup(std::uint64_t index_epoch) {
    std::atomic<bool> is_announced = false;
    CuttingServer script;
    script.lie = [&](const v1::UploadFrame& frame, v1::UploadResponse& response) {
      const auto& features = frame.open().features();
      if (std::count(features.begin(), features.end(), "index-epoch") == 1) is_announced = true;
      for (v1::UploadAnswer& answer : *response.mutable_answers()) {
        if (answer.has_file_done()) answer.mutable_file_done()->set_index_epoch(index_epoch);
      }
    };
    const FakeServer server(script);
    BackupOptions options;
    options.paths = {folder_.path() + "/files"};
    options.servers = {server.address()};
    options.host = "host";
    // What is said behind one file is heard before the next one is answered.
    options.lane_count = 1;
    options.known.memory_bytes = list_bytes_;
    BackupProgress progress;
    const absl::Status status = RunBackup(*store_, options, progress).status();
    EXPECT_TRUE(is_announced);
    EXPECT_TRUE(store_->ListPending()->snapshots.empty());
    return status;
  }

  std::size_t SnapshotCount() { return store_->ListSnapshots()->snapshots.size(); }

  std::optional<std::uint64_t> list_bytes_;
  const TemporaryFolder folder_;
  const std::unique_ptr<Store> store_ = *Store::OpenOrCreate(
      folder_.path() + "/store", kDefaultProfileName, DigestAlgorithm::kBlake3);
};

// The store's epoch is read as it was, by a file system that remembers too long, say.
TEST_F(OvertakenBackupTest, AnIndexThatHasMovedOnIsReasonToLookAtAllChunks) {
  const PackThief thief(*store_, std::string(4096, 'n'));
  // With a list of the store's chunks, and without.
  for (const bool is_by_place : {false, true}) {
    if (is_by_place) list_bytes_ = 0;
    const absl::Status status = Backup(/*index_epoch=*/2);
    EXPECT_TRUE(absl::IsAborted(status)) << status;
    EXPECT_EQ(SnapshotCount(), 0u);
  }
}

// That is how an index is without any collection, and one of 0.1.0 says nothing.
TEST_F(OvertakenBackupTest, OneThatHasNotIsNone) {
  for (const std::uint64_t index_epoch : {0, 1}) {
    EXPECT_TRUE(Backup(index_epoch).ok());
    EXPECT_EQ(SnapshotCount(), index_epoch + 1);
  }
  list_bytes_ = 0;
  const PackThief thief(*store_, std::string(4096, 'n'));
  EXPECT_TRUE(Backup(/*index_epoch=*/1).ok());
}

}  // namespace
}  // namespace kerf::agent
