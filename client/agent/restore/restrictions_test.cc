// Restores of what others may have made up.
#include "client/agent/restore/restrictions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/strings.h"
#include "client/agent/restore/restore_run.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

TreeEntry Entry(const std::string& path, NodeKind kind, std::uint32_t mode,
                const std::string& content = "") {
  TreeEntry entry;
  entry.node.path = path;
  entry.node.kind = kind;
  entry.node.mode = mode;
  entry.node.uid = geteuid();
  entry.node.gid = getegid();
  entry.node.size_bytes = content.size();
  if (!content.empty()) entry.recipe = {RefOf(content)};
  return entry;
}

TreeEntry HardLink(const std::string& path, const TreeEntry& to) {
  TreeEntry entry = to;
  entry.node.path = path;
  entry.node.hard_link_to = to.node.path;
  entry.recipe.clear();
  return entry;
}

class RestrictionsTest : public ::testing::Test {
 protected:
  // The list of files in two chunks: what is in front of `split`, and the rest.
  store::v1::Snapshot Write(const std::vector<TreeEntry>& entries, std::size_t split = 0) {
    std::string pieces[2];
    for (std::size_t i = 0; i < entries.size(); ++i) {
      std::vector<std::uint8_t> bytes;
      EncodeTreeEntry(entries[i], 32, bytes);
      pieces[i < split ? 0 : 1].append(bytes.begin(), bytes.end());
    }
    std::vector<ChunkRef> tree;
    for (const std::string& piece : pieces) {
      if (piece.empty()) continue;
      last_pack_ =
          ChunkIndex(store_.store().packs_directory()).PackPath(store_.WritePack({piece}).id);
      tree.push_back(RefOf(piece));
    }
    store::v1::Snapshot snapshot;
    RecipeToProto(tree, 32, *snapshot.mutable_tree());
    snapshot.mutable_stats()->set_entry_count(entries.size());
    // As it says itself.
    snapshot.mutable_stats()->set_total_bytes(1);
    return snapshot;
  }

  RestoreRunOptions Options() {
    RestoreRunOptions options;
    options.target = out();
    options.restore.sync = false;
    options.restore.on_error = [this](const std::string& path, const absl::Status& status) {
      errors_.push_back(Cat(path, ": ", std::string(status.message())));
    };
    return options;
  }

  absl::StatusOr<RestoreResult> RestoreWithin(const store::v1::Snapshot& snapshot,
                                              std::uint64_t max_bytes,
                                              const std::string& subtree = "") {
    std::filesystem::remove_all(out());
    RestoreRunOptions options = Options();
    options.subtree = subtree;
    options.restrictions.max_bytes = max_bytes;
    return RunRestore(store_.store(), snapshot, options);
  }

  // It fits into so many bytes and not into one less.
  void ExpectTakes(const store::v1::Snapshot& snapshot, std::uint64_t bytes,
                   const std::string& subtree = "") {
    const absl::StatusOr<RestoreResult> fits = RestoreWithin(snapshot, bytes, subtree);
    EXPECT_TRUE(fits.ok()) << fits.status();
    const absl::StatusOr<RestoreResult> over = RestoreWithin(snapshot, bytes - 1, subtree);
    EXPECT_TRUE(absl::IsOutOfRange(over.status())) << over.status();
    EXPECT_THAT(std::string(over.status().message()), HasSubstr("nothing was restored"));
    EXPECT_FALSE(std::filesystem::exists(out()));
  }

  std::string out() const { return Cat(target_.path(), "/out"); }
  mode_t ModeOf(const std::string& name) {
    struct stat status{};
    EXPECT_EQ(lstat(Cat(out(), "/", name).c_str(), &status), 0) << name;
    return status.st_mode & 07777;
  }
  bool Exists(const std::string& name) {
    return std::filesystem::exists(std::filesystem::symlink_status(Cat(out(), "/", name)));
  }

  TestStore store_;
  TemporaryFolder target_;
  std::vector<std::string> errors_;
  // Of the end of the list.
  std::string last_pack_;
};

TEST_F(RestrictionsTest, NoFileAndNoDirectoryGetsASetIdBit) {
  const TreeEntry program = Entry("d/program", NodeKind::kFile, 06755, "x");
  store_.WritePack({"x"});
  const store::v1::Snapshot snapshot =
      Write({Entry("d", NodeKind::kDirectory, 02755), Entry("d/fifo", NodeKind::kFifo, 04600),
             Entry("d/plain", NodeKind::kFile, 01644), program, HardLink("e", program)});
  RestoreRunOptions options = Options();
  options.restrictions.no_set_id = true;
  const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_EQ(result->without_set_id_count, 4u);
  EXPECT_EQ(ModeOf("d"), 0755u);
  EXPECT_EQ(ModeOf("d/program"), 0755u);
  EXPECT_EQ(ModeOf("d/fifo"), 0600u);
  EXPECT_EQ(ModeOf("d/plain"), 01644u);
  EXPECT_EQ(ModeOf("e"), 0755u);
}

TEST(RestrictionsOfANode, AttributesThatOnlyRootCanSetGoWithTheSetIdBits) {
  Node node;
  node.xattrs = {{"security.capability", "x"},
                 {"security.selinux", "x"},
                 {"system.posix_acl_access", "x"},
                 {"trusted.overlay.opaque", "y"},
                 {"user.security.x", "x"}};
  EXPECT_TRUE(RemoveSetId(node));
  EXPECT_THAT(node.xattrs,
              ElementsAre(Xattr{"system.posix_acl_access", "x"}, Xattr{"user.security.x", "x"}));
  EXPECT_FALSE(RemoveSetId(node));
}

TEST_F(RestrictionsTest, DevicesAndTheirFurtherNamesAreLeftOutAndCounted) {
  const TreeEntry device = Entry("b/device", NodeKind::kBlockDevice, 0666);
  const store::v1::Snapshot snapshot =
      Write({Entry("a", NodeKind::kCharDevice, 0666), Entry("b", NodeKind::kDirectory, 0755),
             device, Entry("b/fifo", NodeKind::kFifo, 0600), Entry("c", NodeKind::kDirectory, 0755),
             HardLink("c/again", device), HardLink("c/more", device),
             Entry("c/plain", NodeKind::kFile, 0600)});
  RestoreRunOptions options = Options();
  options.restrictions.no_devices = true;
  absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_EQ(result->left_out_device_count, 4u);
  for (const char* name : {"a", "b/device", "c/again", "c/more"})
    EXPECT_FALSE(Exists(name)) << name;
  for (const char* name : {"b/fifo", "c/plain"}) EXPECT_TRUE(Exists(name)) << name;
  // The first name is not among what is restored.
  std::filesystem::remove_all(out());
  options.subtree = "c";
  result = RunRestore(store_.store(), snapshot, options);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(errors_, IsEmpty());
  EXPECT_EQ(result->left_out_device_count, 2u);
  for (const char* name : {"again", "more"}) EXPECT_FALSE(Exists(name)) << name;
  EXPECT_TRUE(Exists("plain"));
}

TEST_F(RestrictionsTest, WhatIsWrittenCountsWhateverTheSnapshotSaysOfItsSize) {
  store_.WritePack({"12345", "1234567"});
  TreeEntry file = Entry("d/file", NodeKind::kFile, 0644, "12345");
  file.node.xattrs = {{"user.a", "1234"}};
  TreeEntry link = Entry("d/link", NodeKind::kSymlink, 0777);
  link.node.link_target = "123";
  // 1 TiB of which 7 bytes are no hole.
  TreeEntry sparse = Entry("e/sparse", NodeKind::kFile, 0644, "1234567");
  sparse.node.size_bytes = std::uint64_t{1} << 40;
  sparse.node.sparse = true;
  sparse.node.extents = {{1 << 20, 7}};
  const store::v1::Snapshot snapshot =
      Write({Entry("d", NodeKind::kDirectory, 0755), file, HardLink("d/hard", file), link,
             Entry("e", NodeKind::kDirectory, 0755), HardLink("e/file", file), sparse});
  constexpr std::uint64_t kFile = 5 + 6 + 4;
  ExpectTakes(snapshot, kFile + 3 + 7);
  ExpectTakes(snapshot, kFile + 3, "d");
  // With what its hard link names outside.
  ExpectTakes(snapshot, kFile + 7, "e");
  const absl::StatusOr<RestoreResult> all = RestoreWithin(snapshot, kMost);
  EXPECT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(std::filesystem::file_size(Cat(out(), "/e/sparse")), std::uint64_t{1} << 40);
}

// One chunk, a thousand times: a store of a few bytes holds a bomb.
TEST_F(RestrictionsTest, AFileThatRepeatsOneChunkTakesAllThatItUnpacksTo) {
  store_.WritePack({"12345"});
  TreeEntry bomb = Entry("bomb", NodeKind::kFile, 0644, "12345");
  bomb.recipe.assign(1000, bomb.recipe.front());
  bomb.node.size_bytes = 5000;
  ExpectTakes(Write({bomb}), 5000);
}

TEST(RestrictionsOfANode, NumbersThatOverflowAreTooMuch) {
  Node node;
  node.size_bytes = kMost;
  node.xattrs = {{"user.a", "x"}};
  EXPECT_EQ(WrittenBytes(node), kMost);
  node.sparse = true;
  node.extents = {{0, kMost}, {5, kMost}};
  EXPECT_EQ(WrittenBytes(node), kMost);
  std::uint64_t left_bytes = 10;
  EXPECT_TRUE(TakeBytes(3, left_bytes));
  EXPECT_FALSE(TakeBytes(kMost, left_bytes));
  EXPECT_FALSE(TakeBytes(1, left_bytes)) << "what came after what was too much";
}

// The first time a part of the list cannot be read, the second time it can, and has more files.
TEST_F(RestrictionsTest, AListThatGrowsMeanwhileEndsTheRestoreBeforeItIsTooMuch) {
  store_.WritePack({"12345"});
  store::v1::Snapshot snapshot =
      Write({Entry("a", NodeKind::kFile, 0644, "12345"), Entry("b", NodeKind::kFile, 0644, "12345"),
             Entry("c", NodeKind::kFile, 0644, "12345")},
            1);
  snapshot.add_paths("/");
  std::filesystem::create_directories(Cat(out(), "/other"));
  RestoreRunOptions options = Options();
  options.delete_others = true;
  options.restore.overwrite = OverwritePolicy::kAlways;
  options.restrictions.max_bytes = 12;
  const std::string hidden = Cat(target_.path(), "/hidden");
  // While it reads which packs there are it is asked, too.
  int of_packs_count = 0;
  ChunkIndex index(store_.store().packs_directory(), SeenPacks::kAsFarAsListed);
  index.EndWhen([&] { return ++of_packs_count < 0; });
  ASSERT_TRUE(index.Refresh().ok());
  std::atomic<int> call_count = 0;
  options.cancelled = [&] {
    // The packs are known when it is first asked behind that; the second time is for the end of the
    // list.
    const int call = ++call_count - of_packs_count;
    if (call == 1) std::filesystem::rename(last_pack_, hidden);
    if (call == 3) std::filesystem::rename(hidden, last_pack_);
    return false;
  };
  const absl::StatusOr<RestoreResult> result = RunRestore(store_.store(), snapshot, options);
  EXPECT_TRUE(absl::IsOutOfRange(result.status())) << result.status();
  EXPECT_TRUE(Exists("a"));
  EXPECT_TRUE(Exists("b"));
  EXPECT_FALSE(Exists("c"));
  EXPECT_TRUE(Exists("other")) << "nothing is deleted unless all is there";
}

}  // namespace
}  // namespace kerf::agent
