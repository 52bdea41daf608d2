// Restores of files that are read in several runs, whole and damaged.
#include "client/agent/restore/restore_run.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/agent/restore/kept_paths.h"
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
    options.restore.sync = false;
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

TEST_F(RestoreRunTest, TheListOfChunksIsNotReadToItsEndForNobody) {
  const store::v1::Snapshot snapshot = store_.WriteSnapshot({{"a", {"chunk"}}});
  RestoreRunOptions options = Options();
  options.cancelled = [] { return true; };
  const absl::Status status = RunRestore(store_.store(), snapshot, options).status();
  EXPECT_TRUE(absl::IsCancelled(status));
  EXPECT_NE(MessageOf(status).find("which chunks the store has"), std::string_view::npos) << status;
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
    const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(errors_.size(), 0u);
    EXPECT_EQ(result->restored.file_count, files.size());
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
    const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
    ASSERT_TRUE(result.ok()) << result.status();
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
  const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, Options());
  ASSERT_TRUE(result.ok()) << result.status();
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].second.code(), absl::StatusCode::kDataLoss) << errors_[0].second;
  EXPECT_FALSE(std::filesystem::exists(Cat(target_.path(), "/out/", errors_[0].first)));
  EXPECT_EQ(result->restored.file_count, 1u);
}

// One flipped bit in the block of one metadata chunk out of many.
TEST_F(RestoreRunTest, ADamagedChunkOfTheTreeCostsItsEntriesOnly) {
  FileChunks files;
  for (int number = 100; number < 400; ++number) files[Cat("f", number)] = {Cat("of ", number)};
  std::vector<std::string> metadata;
  const store::v1::Snapshot snapshot = store_.Describe(files, metadata);
  ASSERT_GT(snapshot.tree_size(), 10);
  std::vector<std::string> contents;
  for (const auto& [name, chunks] : files) contents.push_back(chunks[0]);
  store_.WritePack(contents);
  // Another one than the first, which a tree without resynchronisation would get past.
  const std::string lost_digest = snapshot.tree(1).digest();
  std::erase_if(metadata, [&](const std::string& chunk) {
    const Digest digest = RefOf(chunk).digest;
    return std::equal(lost_digest.begin(), lost_digest.end(),
                      reinterpret_cast<const char*>(digest.bytes.data()));
  });
  store_.WritePack(metadata);
  const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, Options());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->gap_count, 1u);
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].second.code(), absl::StatusCode::kDataLoss);
  EXPECT_GT(result->lost_entry_count, 0u);
  EXPECT_LT(result->lost_entry_count, 60u);
  EXPECT_EQ(result->restored.file_count + result->lost_entry_count, files.size());
  std::uint64_t restored_count = 0;
  for (const auto& [name, chunks] : files) {
    if (!std::filesystem::exists(Cat(target_.path(), "/out/", name))) continue;
    EXPECT_EQ(Restored(name), chunks[0]);
    ++restored_count;
  }
  EXPECT_EQ(restored_count, result->restored.file_count);
}

TEST_F(RestoreRunTest, ACopyThatCannotBeReadIsReportedAndDoneWithout) {
  const store::v1::Snapshot snapshot = store_.WriteSnapshot({{"file", {"content"}}});
  store_.WritePack({"unneeded"});
  for (const std::string& path : store_.PackFiles()) {
    const std::string bytes = ReadTestFile(path);
    if (bytes.find("unneeded") != std::string::npos) WriteTestFile(path, "short");
  }
  const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, Options());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(Restored("file"), "content");
  EXPECT_EQ(result->restored.error_count, 0u);
  ASSERT_EQ(result->unreadable.size(), 1u);
  EXPECT_NE(MessageOf(result->unreadable[0]).find(".pack"), std::string_view::npos);
}

class SalvagedRunTest : public RestoreRunTest {
 protected:
  static TreeEntry Entry(const std::string& path, NodeKind kind, std::uint32_t mode) {
    TreeEntry entry;
    entry.node.path = path;
    entry.node.kind = kind;
    entry.node.mode = mode;
    return entry;
  }

  // Of which the piece from `begin` to `end` is lost, counted from the beginning of an entry.
  store::v1::Snapshot WriteTree(const std::vector<TreeEntry>& entries, std::size_t first_lost,
                                std::size_t last_lost) {
    std::vector<std::uint8_t> stream;
    std::vector<std::size_t> begins;
    for (const TreeEntry& entry : entries) {
      begins.push_back(stream.size());
      EncodeTreeEntry(entry, 32, stream);
    }
    const std::string text(stream.begin(), stream.end());
    const std::size_t begin = begins[first_lost];
    const std::size_t end = begins[last_lost] + 10;
    const std::vector<std::string> pieces = {text.substr(0, begin), text.substr(begin, end - begin),
                                             text.substr(end)};
    store_.WritePack({pieces[0], pieces[2]});
    store::v1::Snapshot snapshot;
    RecipeToProto({RefOf(pieces[0]), RefOf(pieces[1]), RefOf(pieces[2])}, 32,
                  *snapshot.mutable_tree());
    snapshot.mutable_stats()->set_entry_count(entries.size());
    return snapshot;
  }

  mode_t RestoredMode(const std::string& name) {
    struct stat status{};
    EXPECT_EQ(lstat(Cat(target_.path(), "/out/", name).c_str(), &status), 0) << name;
    return status.st_mode & 07777;
  }
};

TEST_F(SalvagedRunTest, RightsThatCouldBePlantedAreLeftOutUnlessTheUserSaysSo) {
  const std::vector<TreeEntry> entries = {
      Entry("a", NodeKind::kFile, 04755),       Entry("d", NodeKind::kDirectory, 0755),
      Entry("d/e", NodeKind::kDirectory, 0755), Entry("d/e/f", NodeKind::kFile, 0644),
      Entry("d/e/g", NodeKind::kFile, 04755),   Entry("d/e/h", NodeKind::kFile, 0640),
      Entry("n", NodeKind::kCharDevice, 0666)};
  const store::v1::Snapshot snapshot = WriteTree(entries, 1, 3);
  RestoreRunOptions options = Options();
  absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->lost_entry_count, 3u);
  EXPECT_EQ(result->made_up_count, 2u);
  EXPECT_EQ(result->withheld_count, 2u);
  EXPECT_EQ(RestoredMode("a"), 04755u);
  EXPECT_EQ(RestoredMode("d"), 0700u);
  EXPECT_EQ(RestoredMode("d/e"), 0700u);
  EXPECT_EQ(RestoredMode("d/e/g"), 0755u);
  EXPECT_EQ(RestoredMode("d/e/h"), 0640u);
  EXPECT_FALSE(std::filesystem::exists(Cat(target_.path(), "/out/n")));
  for (const auto& [path, status] : errors_) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << path << ": " << status;
  }
  options.trust_doubtful = true;
  options.restore.overwrite = OverwritePolicy::kAlways;
  result = RunRestore(store_.store(), snapshot, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->withheld_count, 0u);
  EXPECT_EQ(RestoredMode("d/e/g"), 04755u);
}

TEST_F(SalvagedRunTest, AHardLinkWhoseFileIsLostIsNoEmptyFile) {
  TreeEntry link = Entry("s/link", NodeKind::kFile, 0644);
  link.node.hard_link_to = "b";
  const std::vector<TreeEntry> entries = {
      Entry("a", NodeKind::kFile, 0644), Entry("b", NodeKind::kFile, 0644),
      Entry("s", NodeKind::kDirectory, 0755), link, Entry("s/z", NodeKind::kFile, 0644)};
  const store::v1::Snapshot snapshot = WriteTree(entries, 1, 1);
  RestoreRunOptions options = Options();
  options.subtree = "s";
  const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->gap_count, 0u) << "it is not in what was asked for";
  ASSERT_EQ(errors_.size(), 1u);
  EXPECT_EQ(errors_[0].first, "link");
  EXPECT_FALSE(std::filesystem::exists(Cat(target_.path(), "/out/link")));
  EXPECT_TRUE(std::filesystem::exists(Cat(target_.path(), "/out/z")));
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

// What leads to a path of the backup through a directory that was left out has nothing else of what
// was there: of whatever else lies in it nobody knows whether it should be.
TEST(KeptPathsTest, WhatLeadsThroughADirectoryThatWasLeftOutIsNotCleanedUp) {
  store::v1::Snapshot snapshot;
  for (const char* path : {"/home", "/home/a/cache/x/keep", "/home/mount/y/keep"}) {
    snapshot.add_paths(path);
  }
  snapshot.mutable_left_out()->add_excludes("/home/a/cache");
  snapshot.mutable_left_out()->add_directories("/home/mount");
  KeptPaths kept;
  ASSERT_TRUE(kept.Learn(snapshot, /*with_excluded=*/false).ok());
  for (const char* directory :
       {"home", "home/a", "home/a/cache/x/keep", "home/a/cache/x/keep/z", "home/mount/y/keep"}) {
    EXPECT_TRUE(kept.MayRemoveIn(directory)) << directory;
  }
  for (const char* directory :
       {"", "other", "home/a/cache", "home/a/cache/x", "home/mount", "home/mount/y"}) {
    EXPECT_FALSE(kept.MayRemoveIn(directory)) << directory;
  }
  KeptPaths all;
  ASSERT_TRUE(all.Learn(snapshot, /*with_excluded=*/true).ok());
  EXPECT_TRUE(all.MayRemoveIn("home/a/cache/x"));
}

}  // namespace
}  // namespace kerf::agent
