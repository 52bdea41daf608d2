// Restores of files that are read in several pieces, whole and damaged.
#include "client/agent/restore/restore_run.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/agent/restore/read_ahead.h"
#include "client/agent/store/testing/test_store.h"

namespace kerf::agent {
namespace {

class RestoreRunTest : public ::testing::Test {
 protected:
  std::vector<std::string> MakeChunks(std::size_t count) {
    std::vector<std::string> chunks(count);
    for (std::string& chunk : chunks) {
      chunk.resize(random_.Between(1, 64 << 10));
      random_.Fill({reinterpret_cast<std::uint8_t*>(chunk.data()), chunk.size()});
    }
    return chunks;
  }

  RestoreRunOptions Options() {
    RestoreRunOptions options;
    options.target = Cat(target_.path(), "/out");
    options.restore.on_error = [this](const std::string& path, const absl::Status& status) {
      errors_.emplace_back(path, status);
    };
    return options;
  }

  std::string Restored(const std::string& name) {
    return ReadTestFile(Cat(target_.path(), "/out/", name));
  }

  Random random_{TestSeed()};
  TestStore store_;
  TemporaryFolder target_;
  std::vector<std::pair<std::string, absl::Status>> errors_;
};

std::string Join(const std::vector<std::string>& chunks) {
  std::string joined;
  for (const std::string& chunk : chunks) joined += chunk;
  return joined;
}

TEST_F(RestoreRunTest, FilesOfManyPiecesBesideSmallOnes) {
  FileChunks files;
  files["empty"] = {};
  files["one chunk"] = MakeChunks(1);
  // About 10 MiB: more pieces than are read ahead; with chunks that come again.
  files["large"] = MakeChunks(300);
  files["large"].push_back(files["large"].front());
  files["middle"] = MakeChunks(60);
  const store::v1::Snapshot snapshot = store_.WriteSnapshot(files);
  const absl::StatusOr<RestoreSummary> summary = RunRestore(store_.store(), snapshot, Options());
  ASSERT_TRUE(summary.ok()) << summary.status();
  EXPECT_EQ(errors_.size(), 0u);
  EXPECT_EQ(summary->file_count, files.size());
  for (const auto& [name, chunks] : files) EXPECT_EQ(Restored(name), Join(chunks)) << name;
}

TEST_F(RestoreRunTest, ADamagedChunkInTheMiddleEndsThatFileOnly) {
  FileChunks files;
  files["large"] = MakeChunks(300);
  files["other"] = MakeChunks(100);
  store::v1::Snapshot snapshot = store_.WriteSnapshot(files);
  // The same snapshot, but one pack with a flipped byte in its middle.
  std::string largest;
  for (const std::string& path : store_.PackFiles()) {
    if (largest.empty() || std::filesystem::file_size(path) > std::filesystem::file_size(largest)) {
      largest = path;
    }
  }
  std::string bytes = ReadTestFile(largest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  std::filesystem::permissions(largest, std::filesystem::perms::owner_all);
  WriteTestFile(largest, bytes);
  const absl::StatusOr<RestoreSummary> summary = RunRestore(store_.store(), snapshot, Options());
  ASSERT_TRUE(summary.ok()) << summary.status();
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].second.code(), absl::StatusCode::kDataLoss) << errors_[0].second;
  EXPECT_FALSE(std::filesystem::exists(Cat(target_.path(), "/out/", errors_[0].first)));
  EXPECT_EQ(summary->file_count, 1u);
}

TEST_F(RestoreRunTest, PiecesThatNobodyTakesAreLeftBehind) {
  const std::vector<std::string> chunks = MakeChunks(50);
  store_.WritePack(chunks);
  ChunkIndex index(store_.store().packs_directory());
  ASSERT_TRUE(index.Refresh().ok());
  ChunkReader reader(index, ChunkReader::Options());
  auto recipe = std::make_shared<std::vector<ChunkRef>>();
  for (const std::string& chunk : chunks) recipe->push_back(RefOf(chunk));
  std::vector<ReadAhead::Result> results;
  {
    ReadAhead read_ahead(reader, 2);
    for (std::size_t begin = 0; begin < chunks.size(); ++begin) {
      results.push_back(read_ahead.Read({recipe, begin, chunks.size(), {}}));
    }
    const absl::StatusOr<std::vector<std::uint8_t>> first = results.front().get();
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(std::string(first->begin(), first->end()), Join(chunks));
  }
}

}  // namespace
}  // namespace kerf::agent
