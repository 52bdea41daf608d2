// Restores of files that are read in several runs, whole and damaged.
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
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/testing/test_store.h"

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

TEST_F(RestoreRunTest, FilesOfManyRunsBesideSmallOnes) {
  FileChunks files;
  files["empty"] = {};
  files["one chunk"] = MakeChunks(1);
  // About 10 MiB: more runs than are read ahead; with chunks that come again.
  files["large"] = MakeChunks(300);
  files["large"].push_back(files["large"].front());
  files["middle"] = MakeChunks(60);
  const store::v1::Snapshot snapshot = store_.WriteSnapshot(files);
  // The second time only the smallest recipes are kept.
  for (const std::size_t max_kept_chunks : {kMaxKeptChunks, std::size_t{1}}) {
    RestoreRunOptions options = Options();
    options.max_kept_chunks = max_kept_chunks;
    options.restore.overwrite = OverwritePolicy::kAlways;
    const absl::StatusOr<RestoreSummary> summary = RunRestore(store_.store(), snapshot, options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(errors_.size(), 0u);
    EXPECT_EQ(summary->file_count, files.size());
    for (const auto& [name, chunks] : files) EXPECT_EQ(Restored(name), Join(chunks)) << name;
  }
}

// As a hostile store can name one: a few bytes of metadata, again and again.
TEST_F(RestoreRunTest, AFileThatRepeatsOneChunkIsRestoredFromTheTreeStream) {
  constexpr std::size_t kRepeats = 40'000;
  TreeEntry entry;
  entry.node.path = "file";
  entry.node.mode = 0600;
  entry.recipe.assign(kRepeats, RefOf("x"));
  entry.node.size_bytes = kRepeats;
  std::vector<std::uint8_t> stream;
  EncodeTreeEntry(entry, 32, stream);
  // Every chunk of the recipe takes as much of the stream.
  const std::size_t chunk_bytes = RefOf("x").length_bytes + 32;
  const std::size_t head_bytes = stream.size() - kRepeats * chunk_bytes;
  const std::string head(stream.begin(), stream.begin() + static_cast<std::ptrdiff_t>(head_bytes));
  const std::string repeated(stream.end() - 1000 * static_cast<std::ptrdiff_t>(chunk_bytes),
                             stream.end());
  store_.WritePack({"x", head, repeated});
  store::v1::Snapshot snapshot;
  std::vector<ChunkRef> tree(1 + kRepeats / 1000, RefOf(repeated));
  tree.front() = RefOf(head);
  RecipeToProto(tree, 32, *snapshot.mutable_tree());
  for (const std::size_t max_kept_chunks : {kRepeats, kRepeats - 1}) {
    RestoreRunOptions options = Options();
    options.max_kept_chunks = max_kept_chunks;
    options.restore.overwrite = OverwritePolicy::kAlways;
    const absl::StatusOr<RestoreSummary> summary = RunRestore(store_.store(), snapshot, options);
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(errors_.size(), 0u);
    EXPECT_EQ(Restored("file"), std::string(kRepeats, 'x'));
  }
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
  std::vector<ChunkRef> recipe;
  recipe.reserve(chunks.size());
  for (const std::string& chunk : chunks) recipe.push_back(RefOf(chunk));
  std::vector<ReadAhead::Result> results;
  {
    ReadAhead read_ahead(reader, 2);
    for (std::size_t begin = 0; begin < chunks.size(); ++begin) {
      const auto first = recipe.begin() + static_cast<std::ptrdiff_t>(begin);
      results.push_back(read_ahead.Read({{first, recipe.end()}, {}}));
    }
    const absl::StatusOr<std::vector<std::uint8_t>> first = results.front().get();
    ASSERT_TRUE(first.ok());
    EXPECT_EQ(std::string(first->begin(), first->end()), Join(chunks));
  }
}

}  // namespace
}  // namespace kerf::agent
