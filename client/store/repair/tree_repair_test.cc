// What takes the place of a snapshot whose list of files is damaged.
#include "client/store/repair/tree_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/check/verify.h"
#include "client/store/collect/collection.h"
#include "client/store/format/file_hook.h"
#include "client/store/format/tree_codec.h"
#include "client/store/snapshots/recipe_stream.h"
#include "client/store/testing/disk_model.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::size_t kDigestBytes = 32;

TreeEntry Entry(const std::string& path, NodeKind kind, std::uint32_t mode) {
  TreeEntry entry;
  entry.node.path = path;
  entry.node.kind = kind;
  entry.node.mode = mode;
  entry.node.modified = {1'500'000'000, 0};
  return entry;
}

// One chunk, of that text.
TreeEntry File(const std::string& path, const std::string& text, std::uint32_t mode = 0644) {
  TreeEntry entry = Entry(path, NodeKind::kFile, mode);
  entry.node.size_bytes = text.size();
  entry.recipe = {RefOf(text)};
  return entry;
}

TreeEntry HardLink(const std::string& path, const std::string& to) {
  TreeEntry entry = Entry(path, NodeKind::kFile, 0644);
  entry.node.hard_link_to = to;
  return entry;
}

// The power goes at each operation: the old snapshot is there, or the new one, whole, or both.
class PowerCuts final : public FileHook {
 public:
  explicit PowerCuts(const std::string& root) : disk_(root) { SetFileHookForTest(this); }
  ~PowerCuts() override { SetFileHookForTest(nullptr); }

  // From now on.
  void Begin(const std::string& old_id) { old_id_ = old_id; }

  absl::Status Before(const FileOperation& operation) override {
    const std::lock_guard lock(mutex_);
    // Of the check itself.
    if (is_checking_ || !operation.changes_something()) return absl::OkStatus();
    is_checking_ = true;
    if (!old_id_.empty()) {
      for (const auto survival : {DiskModel::Survival::kNothing, DiskModel::Survival::kEverything,
                                  DiskModel::Survival::kSome, DiskModel::Survival::kSome}) {
        Check(survival);
      }
    }
    is_checking_ = false;
    disk_.Apply(operation);
    return absl::OkStatus();
  }

  int with_both() const { return with_both_; }
  int with_old() const { return with_old_; }

 private:
  void Check(DiskModel::Survival survival) {
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    disk_.Materialise(after.path(), survival, random_);
    TestStore test(after.path());
    EXPECT_THAT(test.store().flaws(), IsEmpty());
    const auto list = test.store().ListSnapshots();
    ASSERT_TRUE(list.ok()) << list.status();
    EXPECT_THAT(list->damaged, IsEmpty());
    EXPECT_THAT(list->missing, IsEmpty());
    bool has_old = false;
    bool has_new = false;
    for (const store::v1::Snapshot& snapshot : list->snapshots) {
      has_old = has_old || snapshot.id() == old_id_;
      if (snapshot.salvage().replaces() != old_id_) continue;
      has_new = true;
      EXPECT_TRUE(test.Restore(snapshot).ok()) << test.Restore(snapshot);
    }
    EXPECT_TRUE(has_old || has_new);
    if (has_old) ++(has_new ? with_both_ : with_old_);
  }

  std::recursive_mutex mutex_;
  std::string old_id_;
  DiskModel disk_;
  Random random_{TestSeed()};
  bool is_checking_ = false;
  int with_both_ = 0;
  int with_old_ = 0;
};

class TreeRepairTest : public ::testing::Test {
 protected:
  // Of the tree the piece from the beginning of one entry to some bytes of another one is lost; of
  // the identities nothing is, unless `lost_identities`.
  store::v1::Snapshot WriteTree(const std::vector<TreeEntry>& entries, std::size_t first_lost,
                                std::size_t last_lost, bool lost_identities = false) {
    std::vector<std::uint8_t> stream;
    std::vector<std::uint8_t> identity;
    std::vector<std::size_t> begins;
    for (const TreeEntry& entry : entries) {
      begins.push_back(stream.size());
      EncodeTreeEntry(entry, kDigestBytes, stream);
      EncodeIdentity({1, begins.size(), {static_cast<std::int64_t>(100 + begins.size()), 7}},
                     identity);
    }
    begins.push_back(stream.size());
    const std::string text(stream.begin(), stream.end());
    const std::size_t begin = begins[first_lost];
    const std::size_t end = std::min(begins[last_lost] + 10, text.size());
    const std::vector<std::string> tree = {text.substr(0, begin), text.substr(begin, end - begin),
                                           text.substr(end)};
    const std::string identities(identity.begin(), identity.end());
    // From within the ctime of the first one to the end of the second.
    const std::vector<std::string> pieces = {identities.substr(0, 26), identities.substr(26, 30),
                                             identities.substr(56)};
    std::vector<std::string> stored = {tree[0], tree[2], pieces[0], pieces[2]};
    if (first_lost == entries.size()) stored.push_back(tree[1]);
    if (!lost_identities) stored.push_back(pieces[1]);
    std::erase(stored, "");
    test_.WritePack(stored);
    store::v1::Snapshot snapshot;
    snapshot.set_host("host");
    snapshot.add_paths("/");
    snapshot.set_started_unix_ns(1234);
    Put(tree, *snapshot.mutable_tree());
    Put(pieces, *snapshot.mutable_identity());
    snapshot.mutable_stats()->set_entry_count(entries.size());
    EXPECT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
    return snapshot;
  }

  static void Put(const std::vector<std::string>& pieces,
                  google::protobuf::RepeatedPtrField<store::v1::StoredChunkRef>& recipe) {
    std::vector<ChunkRef> refs;
    for (const std::string& piece : pieces) {
      if (!piece.empty()) refs.push_back(RefOf(piece));
    }
    RecipeToProto(refs, kDigestBytes, recipe);
  }

  TreeRepairReport Repair(bool apply) {
    options_.dry_run = !apply;
    auto report = RepairTrees(test_.store(), options_);
    EXPECT_TRUE(report.ok()) << report.status();
    return report.ok() ? *std::move(report) : TreeRepairReport();
  }

  // The only one there is.
  store::v1::Snapshot Only() {
    const auto list = test_.store().ListSnapshots();
    EXPECT_THAT(list->snapshots, SizeIs(1));
    EXPECT_THAT(list->missing, IsEmpty());
    return list->snapshots.front();
  }

  // Of a tree that is whole; with their identities.
  std::vector<std::pair<TreeEntry, NodeIdentity>> EntriesOf(const store::v1::Snapshot& snapshot,
                                                            std::size_t max_kept = 1 << 20) {
    ChunkIndex index(test_.store().packs_directory());
    EXPECT_TRUE(index.Refresh().ok());
    ChunkReader reader(index, ChunkReader::Options());
    TreeReader tree(ReadRecipe(reader, *RecipeFromProto(snapshot.tree(), kDigestBytes)),
                    kDigestBytes, max_kept);
    IdentityReader identities(
        ReadRecipe(reader, *RecipeFromProto(snapshot.identity(), kDigestBytes)));
    std::vector<std::pair<TreeEntry, NodeIdentity>> entries;
    TreeEntry entry;
    NodeIdentity identity;
    for (auto more = tree.Next(entry); more.ok() && *more; more = tree.Next(entry)) {
      EXPECT_TRUE(*identities.Next(identity));
      entries.emplace_back(entry, identity);
    }
    EXPECT_EQ(entries.size(), snapshot.stats().entry_count());
    return entries;
  }

  absl::StatusOr<CollectionReport> Collect() {
    CollectionOptions options;
    options.thread_count = 1;
    return CollectGarbage(test_.store(), index_, options);
  }
  void ExpectSound() {
    VerifyOptions options;
    options.read_data = true;
    const auto verified = VerifyStore(test_.store(), options);
    ASSERT_TRUE(verified.ok()) << verified.status();
    EXPECT_EQ(verified->finding_count, 0u) << verified->findings[0].status;
    const auto collected = Collect();
    ASSERT_TRUE(collected.ok()) << collected.status();
    EXPECT_THAT(collected->damage, IsEmpty());
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
    EXPECT_THAT(Repair(true).trees, IsEmpty());
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  PowerCuts cuts_{folder_.path()};
  TestStore test_{folder_.path()};
  PlainIndex index_;
  TreeRepairOptions options_;
};

class DamagedTreeTest : public TreeRepairTest {
 protected:
  DamagedTreeTest() {
    TreeEntry program = File("d/e/g", "program", 04755);
    program.node.xattrs = {{"security.capability", "x"}, {"user.x", "y"}};
    test_.WritePack({"first", "program", "text", "last"});
    // From b up to the beginning of d/e/f.
    old_ = WriteTree(
        {File("a", "first", 04755), File("b", "lost"), Entry("d", NodeKind::kDirectory, 0755),
         Entry("d/e", NodeKind::kDirectory, 0755), File("d/e/f", "lost, too"), program,
         File("d/e/h", "text", 0640), HardLink("l", "b"), HardLink("m", "d/e/h"),
         Entry("n", NodeKind::kCharDevice, 0666), File("z", "last")},
        1, 4);
  }
  store::v1::Snapshot old_;
};

TEST_F(DamagedTreeTest, ASnapshotOfWhatIsLeftTakesItsPlace) {
  EXPECT_FALSE(Collect().ok()) << "nobody knows what it needs";
  for (const bool apply : {false, true}) {
    const TreeRepairReport asked = Repair(apply);
    ASSERT_THAT(asked.trees, SizeIs(1));
    EXPECT_FALSE(asked.trees[0].is_accepted);
    EXPECT_EQ(asked.trees[0].new_id, "");
    EXPECT_EQ(Only().id(), old_.id()) << "a loss is nobody's to accept but the user's";
  }
  options_.accepted_losses = {old_.id()};
  const TreeRepairReport dry = Repair(false);
  EXPECT_EQ(Only().id(), old_.id());
  const TreeRepairReport report = Repair(true);
  ASSERT_THAT(report.trees, SizeIs(1));
  const RepairedTree& tree = report.trees[0];
  EXPECT_EQ(tree.salvage.SerializeAsString(), dry.trees[0].salvage.SerializeAsString());
  const store::v1::Snapshot made = Only();
  EXPECT_EQ(made.id(), tree.new_id);
  EXPECT_TRUE(std::filesystem::exists(tree.quarantine_path));
  EXPECT_EQ(made.host(), "host");
  EXPECT_EQ(made.started_unix_ns(), 1234);
  const store::v1::Salvage& salvage = made.salvage();
  EXPECT_EQ(salvage.replaces(), old_.id());
  EXPECT_EQ(salvage.gap_count(), 1u);
  EXPECT_EQ(salvage.lost_entry_count(), 4u);
  EXPECT_EQ(salvage.made_up_count(), 2u);
  EXPECT_EQ(salvage.withheld_count(), 1u);
  EXPECT_EQ(salvage.left_out_count(), 2u) << "the device, and the link to b";
  EXPECT_EQ(made.stats().error_count(), 8u);
  EXPECT_EQ(made.stats().file_count(), 5u);
  std::vector<std::string> lost;
  lost.reserve(tree.losses.size());
  for (const TreeLoss& loss : tree.losses) lost.push_back(loss.path);
  EXPECT_THAT(lost, ElementsAre("a", "d", "d/e", "d/e/g", "l", "n"));

  std::vector<std::string> shown;
  for (const auto& [entry, identity] : EntriesOf(made)) {
    shown.push_back(Cat(entry.node.path, " ", entry.node.mode, " ", identity.changed.seconds));
  }
  const std::string program = Cat("d/e/g ", 0755, " 0");
  EXPECT_THAT(shown, ElementsAre(Cat("a ", 04755, " 101"), Cat("d ", 0700, " 0"),
                                 Cat("d/e ", 0700, " 0"), program, Cat("d/e/h ", 0640, " 0"),
                                 Cat("m ", 0644, " 0"), Cat("z ", 0644, " 0")));
  const TreeEntry kept = EntriesOf(made)[3].first;
  EXPECT_THAT(kept.node.xattrs, ElementsAre(Xattr{"user.x", "y"}));
  options_.accepted_losses = {};
  ExpectSound();
}

TEST_F(DamagedTreeTest, WhoTrustsWhatWasFoundHasAllOfIt) {
  options_.accepted_losses = {old_.id()};
  options_.trust_doubtful = true;
  const TreeRepairReport report = Repair(true);
  ASSERT_THAT(report.trees, SizeIs(1));
  EXPECT_EQ(report.trees[0].salvage.withheld_count(), 0u);
  EXPECT_EQ(report.trees[0].salvage.left_out_count(), 1u);
  const auto entries = EntriesOf(Only());
  ASSERT_THAT(entries, SizeIs(8));
  EXPECT_EQ(entries[3].first.node.mode, 04755u);
  EXPECT_EQ(entries[6].first.node.kind, NodeKind::kCharDevice);
}

TEST_F(DamagedTreeTest, WhatIsPinnedStaysPinned) {
  store::v1::SnapshotPin pin;
  pin.set_id(old_.id());
  pin.set_reason("precious");
  ASSERT_TRUE(test_.store().PinSnapshot(pin).ok());
  options_.accepted_losses = {old_.id()};
  Repair(true);
  EXPECT_FALSE(test_.store().pins().Has(old_.id()));
  EXPECT_EQ(test_.store().pins().Read(Only().id())->reason(), "precious");
}

TEST_F(DamagedTreeTest, FilesWithoutContentStayUnlessTheyAreGivenUp) {
  for (const std::string& path : test_.PackFiles()) {
    if (ReadTestFile(path).find("program") != std::string::npos) std::filesystem::remove(path);
  }
  test_.WritePack({"first", "program", "last"});
  options_.accepted_losses = {old_.id()};
  ASSERT_THAT(Repair(true).trees, SizeIs(1));
  const store::v1::Snapshot kept = Only();
  EXPECT_EQ(kept.stats().file_count(), 5u);
  auto collected = Collect();
  ASSERT_TRUE(collected.ok()) << "it runs, and says what is missing: " << collected.status();
  EXPECT_THAT(collected->damage, SizeIs(1));
  options_.accepted_losses = {};
  EXPECT_THAT(Repair(true).trees, IsEmpty()) << "its tree is whole";
  options_.accepted_losses = {kept.id()};
  EXPECT_TRUE(absl::IsInvalidArgument(RepairTrees(test_.store(), options_).status()));
  options_.accepted_losses = {kept.id(), kContentLoss};
  const TreeRepairReport report = Repair(true);
  ASSERT_THAT(report.trees, SizeIs(1));
  EXPECT_EQ(report.trees[0].salvage.left_out_count(), 2u) << "d/e/h, and m, which is a link to it";
  EXPECT_EQ(Only().stats().file_count(), 3u);
  EXPECT_EQ(Only().salvage().replaces(), kept.id());
  options_.accepted_losses = {};
  ExpectSound();
}

TEST_F(DamagedTreeTest, AtNoMomentIsThereNeitherOfTheTwo) {
  cuts_.Begin(old_.id());
  options_.accepted_losses = {old_.id()};
  ASSERT_THAT(Repair(true).trees, SizeIs(1));
  EXPECT_GT(cuts_.with_old(), 20);
  EXPECT_GT(cuts_.with_both(), 4);
}

TEST_F(TreeRepairTest, LostIdentitiesCostNoEntryAndNeedNoWord) {
  test_.WritePack({"1", "2", "3", "4"});
  const std::vector<TreeEntry> entries = {File("a", "1"), File("b", "2"), File("c", "3"),
                                          File("d", "4")};
  const store::v1::Snapshot old = WriteTree(entries, 4, 4, /*lost_identities=*/true);
  const TreeRepairReport dry = Repair(false);
  ASSERT_THAT(dry.trees, SizeIs(1));
  EXPECT_TRUE(dry.trees[0].is_whole);
  ASSERT_THAT(Repair(true).trees, SizeIs(1));
  const store::v1::Snapshot made = Only();
  EXPECT_EQ(made.salvage().replaces(), old.id());
  EXPECT_EQ(made.stats().error_count(), 0u);
  const auto now = EntriesOf(made);
  ASSERT_THAT(now, SizeIs(4));
  for (std::size_t index = 0; index < now.size(); ++index) {
    EXPECT_EQ(now[index].first, entries[index]);
    // Most of the first one is there, which is none.
    const bool is_lost = index < 2;
    EXPECT_EQ(now[index].second.changed.seconds, is_lost ? 0 : 101 + static_cast<int>(index));
    EXPECT_EQ(now[index].second.changed.nanoseconds, is_lost ? 0u : 7u);
  }
  ExpectSound();
}

// Longer than what is kept of one in memory.
TEST_F(TreeRepairTest, ALongRecipeComesAlongAsItWas) {
  TreeEntry large = Entry("c", NodeKind::kFile, 0644);
  for (std::size_t count = 0; count < kMaxKeptChunks + 1000; ++count) {
    large.recipe.push_back(RefOf(count % 3 == 0 ? "x" : "yy"));
    large.node.size_bytes += large.recipe.back().length_bytes;
  }
  test_.WritePack({"1", "x", "yy", "4"});
  const store::v1::Snapshot old =
      WriteTree({File("a", "1"), File("b", "2"), large, File("d", "4")}, 1, 1);
  options_.accepted_losses = {old.id()};
  ASSERT_THAT(Repair(true).trees, SizeIs(1));
  const auto entries = EntriesOf(Only());
  ASSERT_THAT(entries, SizeIs(3));
  EXPECT_EQ(entries[1].first, large);
  EXPECT_EQ(entries[2].first, File("d", "4"));
  options_.accepted_losses = {};
  ExpectSound();
}

}  // namespace
}  // namespace kerf::agent
