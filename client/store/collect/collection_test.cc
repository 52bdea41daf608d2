// Single collections on small stores; collection_sim_test.cc has what happens beside them.
#include "client/store/collect/collection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <utime.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <tuple>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/snapshots/pending.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kLetters[] = {'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};

class CollectionTest : public testing::Test {
 protected:
  absl::StatusOr<CollectionReport> Collect(double max_waste_ratio = 0) {
    options_.max_waste_ratio = max_waste_ratio;
    options_.min_merged_packs = min_merged_packs_;
    options_.thread_count = 1;
    return CollectGarbage(test_.store(), index_, options_);
  }

  // Every chunk that the index names lies in a pack, where the index says.
  void ExpectIndexTrue() {
    ChunkIndex packs(test_.store().packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    for (const auto& [digest, locator] : index_.locators) {
      const std::optional<Locator> place = DecodeLocator(locator);
      ASSERT_TRUE(place.has_value());
      EXPECT_TRUE(std::filesystem::exists(packs.PackPath(place->pack)));
      EXPECT_TRUE(packs.Contains(digest));
    }
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  PlainIndex index_;
  CollectionOptions options_;
  // Few tests are about it, and all packs here are small.
  std::size_t min_merged_packs_ = 1000;
};

std::string Big(char letter) {
  std::string text;
  // Does not compress to nothing.
  for (int number = 0; number < 100; ++number) text += Cat(std::string(1, letter), number * 7919);
  return text;
}

TEST_F(CollectionTest, OfAnEmptyStoreNothingIsToDo) {
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->epoch, 3u);
  EXPECT_EQ(report->deleted_pack_count, 0u);
  EXPECT_EQ(*test_.store().ReadEpoch(), 3u);
  EXPECT_EQ(index_.epoch, 3u);
  EXPECT_FALSE(ReadCollectionPlan(test_.store().plan_path())->has_value());
}

TEST_F(CollectionTest, TheListOfChunksIsNotReadToItsEndForNobody) {
  options_.is_cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Collect().status()));
  EXPECT_FALSE(ReadCollectionPlan(test_.store().plan_path())->has_value());
}

TEST_F(CollectionTest, WhatIsForgottenGoesAndTheRestStays) {
  const store::v1::Snapshot first = test_.WriteSnapshot({{"a", {Big('a')}}});
  test_.WriteSnapshot({{"b", {Big('b')}}});
  index_.CommitAll(test_.store());
  ASSERT_TRUE(test_.store().RemoveSnapshot(first.id()).ok());
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->deleted_pack_count, 0u);
  EXPECT_GT(report->condemned_chunk_count, 0u);
  EXPECT_LT(report->stored_bytes_after, report->stored_bytes_before);
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('a')).digest));
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('b')).digest));
  ExpectIndexTrue();
  EXPECT_TRUE(test_.RestoreAll().ok());
}

TEST_F(CollectionTest, APackIsRewrittenOnlyForEnoughWaste) {
  const store::v1::Snapshot first = test_.WriteSnapshot({{"a", {Big('a'), Big('b')}}});
  // Its metadata is new, its content the same as half of the first.
  std::vector<std::string> metadata;
  store::v1::Snapshot second = test_.Describe({{"b", {Big('b')}}}, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(second).ok());
  ASSERT_TRUE(test_.store().RemoveSnapshot(first.id()).ok());
  index_.CommitAll(test_.store());
  auto report = Collect(0.99);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->deleted_pack_count, 0u);
  report = Collect(0.2);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->rewritten_pack_count, 1u);
  EXPECT_GE(report->moved_bytes, Big('b').size());
  EXPECT_LT(report->moved_bytes, Big('b').size() + Big('a').size());
  ExpectIndexTrue();
  EXPECT_TRUE(test_.RestoreAll().ok());
}

// Their metadata is partly the same, so that some packs have redundant chunks.
constexpr double kMuchWaste = 0.9;

TEST_F(CollectionTest, SmallPacksAreMergedWhenEnoughHaveCome) {
  min_merged_packs_ = 6;
  for (const char letter : {'a', 'b', 'c', 'd', 'e'}) {
    test_.WriteSnapshot({{std::string(1, letter), {Big(letter)}}});
  }
  index_.CommitAll(test_.store());
  auto report = Collect(kMuchWaste);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->deleted_pack_count, 0u) << "there are five";
  const std::vector<std::string> before = test_.PackFiles();

  test_.WriteSnapshot({{"f", {Big('f')}}});
  index_.CommitAll(test_.store());
  options_.dry_run = true;
  report = Collect(kMuchWaste);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->merged_pack_count, 6u);
  EXPECT_EQ(test_.PackFiles().size(), 6u);
  options_.dry_run = false;
  report = Collect(kMuchWaste);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->merged_pack_count, 6u);
  EXPECT_EQ(report->rewritten_pack_count, 6u);
  EXPECT_EQ(report->condemned_chunk_count, 0u);
  ASSERT_EQ(test_.PackFiles().size(), 1u);
  EXPECT_EQ(std::filesystem::file_size(test_.PackFiles().front()), report->stored_bytes_after);
  for (const std::string& path : before) EXPECT_FALSE(std::filesystem::exists(path));
  ExpectIndexTrue();
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('f')).digest));
  EXPECT_TRUE(test_.RestoreAll().ok());

  // What was merged is left alone until enough has come again.
  report = Collect(kMuchWaste);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->deleted_pack_count, 0u);
  EXPECT_EQ(report->moved_bytes, 0u);
}

TEST_F(CollectionTest, PacksThatAreLargeOrListManyChunksAreNotMerged) {
  min_merged_packs_ = 2;
  test_.WriteSnapshot({{"a", {Big('a')}}});
  test_.WriteSnapshot({{"b", {Big('b'), Big('c'), Big('d'), Big('e'), Big('f')}}});
  test_.WriteSnapshot({{"g", {Big('g')}}});
  ChunkIndex packs(test_.store().packs_directory());
  ASSERT_TRUE(packs.Refresh().ok());
  std::vector<std::uint64_t> sizes;
  std::vector<std::size_t> counts;
  for (const auto& pack : packs.packs()) {
    sizes.push_back(pack->file_bytes);
    counts.push_back(pack->footer.chunks.size());
  }
  std::sort(sizes.begin(), sizes.end());
  std::sort(counts.begin(), counts.end());
  for (const auto& [bytes, chunks, merged_count] :
       std::vector<std::tuple<std::uint64_t, std::size_t, std::uint64_t>>{
           {sizes[0], 1000, 0},
           {sizes[2], counts[0], 0},
           {sizes[2], 1000, 2},
           {1 << 20, counts[2], 2}}) {
    options_.dry_run = true;
    options_.small_pack_bytes = bytes;
    options_.small_pack_chunks = chunks;
    const auto report = Collect(kMuchWaste);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->merged_pack_count, merged_count) << bytes << " " << chunks;
  }
}

TEST_F(CollectionTest, ASmallPackWithADamagedChunkStays) {
  min_merged_packs_ = 4;
  const ChunkIndex packs(test_.store().packs_directory());
  std::string noise(500, '\0');
  Random random(TestSeed());
  for (char& byte : noise) byte = static_cast<char>(random.Below(256));
  const SealedPack bad = test_.WritePack({noise});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe({{"bad", {noise}}}, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  test_.WriteSnapshot({{"a", {Big('a')}}});
  test_.WriteSnapshot({{"b", {Big('b')}}});
  const std::string path = packs.PackPath(bad.id);
  std::string bytes = ReadTestFile(path);
  bytes[bad.footer.blocks.front().offset + 20] ^= 1;
  WriteTestFile(path, bytes);
  for (int round = 0; round < 3; ++round) {
    const auto report = Collect(kMuchWaste);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->damage.size(), round == 0 ? 1u : 0u) << "and does not come again";
    EXPECT_EQ(ReadTestFile(path), bytes) << "what is left of it may still be of use";
    EXPECT_EQ(test_.PackFiles().size(), 2u);
  }
}

// A reader that knows the old packs only finds everything in the new ones.
TEST_F(CollectionTest, WhoReadsMeanwhileFollows) {
  min_merged_packs_ = 2;
  std::vector<std::string> contents;
  for (const char letter : kLetters) {
    contents.push_back(Big(letter));
    test_.WriteSnapshot({{std::string(1, letter), {contents.back()}}});
  }
  ChunkIndex packs(test_.store().packs_directory());
  ASSERT_TRUE(packs.Refresh().ok());
  int step_count = 0;
  options_.on_step = [&](CollectionStep /*step*/) {
    ++step_count;
    ChunkReader reader(packs, ChunkReader::Options());
    for (const std::string& content : contents) {
      EXPECT_TRUE(reader.Read(RefOf(content)).ok()) << "step " << step_count;
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Collect(kMuchWaste).ok());
  EXPECT_EQ(test_.PackFiles().size(), 1u);
  EXPECT_EQ(packs.packs().size(), 1u);
}

TEST_F(CollectionTest, ADryRunDoesNothing) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  options_.dry_run = true;
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->deleted_pack_count, 1u);
  EXPECT_EQ(test_.PackFiles().size(), 1u);
  EXPECT_EQ(*test_.store().ReadEpoch(), 1u);
  EXPECT_EQ(index_.epoch, 1u);
}

TEST_F(CollectionTest, AnIndexThatNoStoreCanHaveToldIsNotFollowed) {
  index_.epoch = kMaxFollowedEpoch + 1;
  EXPECT_TRUE(absl::IsFailedPrecondition(Collect().status()));
  EXPECT_EQ(*test_.store().ReadEpoch(), 1u);
  index_.epoch = kMaxFollowedEpoch;
  EXPECT_TRUE(Collect().ok());
  EXPECT_GT(index_.epoch, kMaxFollowedEpoch);
  // A new index cannot be told that epoch by whoever collects.
  const std::uint64_t store_epoch = *test_.store().ReadEpoch();
  index_.epoch = 0;
  const absl::Status far = Collect().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(far)) << far;
  EXPECT_NE(far.message().find("kerf repo reset-epoch"), std::string::npos) << far;
  EXPECT_EQ(*test_.store().ReadEpoch(), store_epoch);
  index_.epoch = store_epoch - 1;
  EXPECT_TRUE(Collect().ok());
}

// In one call: the server may let no second one through.
TEST_F(CollectionTest, ALostIndexCatchesUpWithAStoreThatHasCountedFar) {
  ASSERT_TRUE(test_.store().WriteEpoch(kMaxFirstIndexEpoch - 10).ok());
  index_.epoch = 0;
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(index_.epoch, kMaxFirstIndexEpoch - 10);
  // An old copy of it, that has missed very many collections, in a few.
  ASSERT_TRUE(test_.store().WriteEpoch(index_.epoch + 3 * kMaxIndexEpochStep).ok());
  EXPECT_TRUE(Collect().ok());
  ASSERT_TRUE(test_.store().WriteEpoch(index_.epoch + 17 * kMaxIndexEpochStep).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(Collect().status()));
}

// Of a pack that goes, a chunk that is still needed has rotted: what is sound of it must stay.
TEST_F(CollectionTest, APackWhoseChunksCannotAllBeMovedIsKept) {
  const SealedPack pack = test_.WritePack({Big('a'), Big('b'), Big('c')});
  const store::v1::Snapshot lost = test_.WriteSnapshot({{"a", {Big('a')}}});
  std::vector<std::string> metadata;
  store::v1::Snapshot kept = test_.Describe({{"b", {Big('b')}}, {"c", {Big('c')}}}, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(kept).ok());
  ASSERT_TRUE(test_.store().RemoveSnapshot(lost.id()).ok());
  ChunkIndex packs(test_.store().packs_directory());
  const std::string path = packs.PackPath(pack.id);
  std::string bytes = ReadTestFile(path);
  // In the block of the second chunk.
  const PackChunk& rotten = pack.footer.chunks[1];
  const PackBlock& block = pack.footer.blocks[rotten.block_index];
  bytes[block.offset + block.stored_bytes / 2] ^= 1;
  WriteTestFile(path, bytes);
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_EQ(report->damage.size(), 1u);
  EXPECT_NE(report->damage.front().find("its pack is kept"), std::string::npos);
  EXPECT_TRUE(std::filesystem::exists(path));
}

// Nor could an index be told of it, in steps that it takes, before long.
TEST_F(CollectionTest, AnEpochThatNoStoreCanHaveIsRefused) {
  for (const std::uint64_t epoch : {kMaxStoreEpoch + 1, UINT64_MAX}) {
    ASSERT_TRUE(test_.store().WriteEpoch(epoch).ok());
    EXPECT_TRUE(absl::IsFailedPrecondition(Collect().status()));
    EXPECT_EQ(*test_.store().ReadEpoch(), epoch);
    EXPECT_EQ(index_.epoch, 1u);
  }
  ASSERT_TRUE(test_.store().WriteEpoch(kMaxStoreEpoch).ok());
  index_.epoch = kMaxStoreEpoch - 1;
  EXPECT_TRUE(Collect().ok());
}

TEST_F(CollectionTest, OnlyOneRunsAtATime) {
  absl::Status inner;
  options_.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kMarked) return absl::OkStatus();
    inner = CollectGarbage(test_.store(), index_, CollectionOptions()).status();
    return absl::OkStatus();
  };
  EXPECT_TRUE(Collect().ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(inner)) << inner;
}

TEST_F(CollectionTest, ASnapshotThatCannotBeReadStopsIt) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  const std::string path = Store::SnapshotPath(test_.store().snapshots_directory(), snapshot.id());
  const std::string good = ReadTestFile(path);
  WriteTestFile(path, good.substr(0, good.size() - 1));
  EXPECT_TRUE(absl::IsDataLoss(Collect().status()));
  WriteTestFile(path, good);
  for (const std::string& pack : test_.PackFiles()) std::filesystem::remove(pack);
  EXPECT_TRUE(absl::IsDataLoss(Collect().status()));
}

TEST_F(CollectionTest, WhatANewerKerfWroteStopsIt) {
  const store::v1::Snapshot kept = test_.WriteSnapshot({{"a", {Big('a')}}});
  const store::v1::Snapshot forgotten = test_.WriteSnapshot({{"b", {Big('b')}}});
  ASSERT_TRUE(test_.store().RemoveSnapshot(forgotten.id()).ok());
  ASSERT_TRUE(WriteCollectionPlan(test_.store().plan_path(), test_.store().temporary_directory(),
                                  CollectionPlan())
                  .ok());
  const std::vector<std::string> packs = test_.PackFiles();
  for (const std::string& path :
       {test_.directory() + "/epoch", test_.store().plan_path(),
        Store::SnapshotPath(test_.store().snapshots_directory(), kept.id())}) {
    const std::string good = ReadTestFile(path);
    const std::string newer = OfNewerKerf(good);
    WriteTestFile(path, newer);
    // A newer one changes both copies.
    const std::string copy = test_.directory() + "/copies/epoch";
    if (path.ends_with("/epoch")) WriteTestFile(copy, newer);
    const absl::Status status = Collect().status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(MessageOf(status)),
                AllOf(HasSubstr(path), HasSubstr("a newer kerf wrote it; use that one"),
                      Not(HasSubstr("remove"))));
    EXPECT_EQ(ReadTestFile(path), newer);
    EXPECT_EQ(test_.PackFiles(), packs);
    WriteTestFile(path, good);
    if (path.ends_with("/epoch")) WriteTestFile(copy, good);
  }
  EXPECT_TRUE(Collect().ok());
}

TEST_F(CollectionTest, ADirectoryThatCannotBeListedStopsIt) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kListDirectory, "/snapshots",
                               absl::UnknownError("Input/output error")));
  EXPECT_EQ(Collect().status().code(), absl::StatusCode::kUnknown);
  EXPECT_EQ(test_.PackFiles().size(), 1u);
}

TEST_F(CollectionTest, OldFilesOfDeadAgentsGo) {
  const Store& store = test_.store();
  store::v1::Snapshot pending;
  ASSERT_TRUE(PublishPending(store, pending).ok());
  const std::string old_pending = Store::SnapshotPath(store.pending_directory(), pending.id());
  WriteTestFile(store.temporary_directory() + "/old", "x");
  WriteTestFile(store.temporary_directory() + "/new", "x");
  const utimbuf past{1, 1};
  ASSERT_EQ(utime((store.temporary_directory() + "/old").c_str(), &past), 0);
  ASSERT_EQ(utime(old_pending.c_str(), &past), 0);
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->removed_temporary_count, 2u);
  EXPECT_FALSE(std::filesystem::exists(old_pending));
  EXPECT_TRUE(std::filesystem::exists(store.temporary_directory() + "/new"));
}

// Of two copies, a collection keeps the one whose pack comes last, and ids are random: many pairs.
TEST_F(CollectionTest, ARedundantCopyStaysWhenTheOtherOneHasRotted) {
  const ChunkIndex packs(test_.store().packs_directory());
  for (const char letter : kLetters) {
    test_.WriteSnapshot({{std::string(1, letter), {Big(letter)}}});
    const SealedPack copy = test_.WritePack({Big(letter)});
    const std::string path = packs.PackPath(copy.id);
    std::string bytes = ReadTestFile(path);
    bytes[copy.footer.blocks.front().offset + 20] ^= 1;
    WriteTestFile(path, bytes);
  }
  for (int round = 0; round < 2; ++round) {
    const auto report = Collect();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  }
}

// The pack with the damage is kept for a chunk that is lost; another chunk in it is not.
TEST_F(CollectionTest, TheSoundCopyOfAChunkInADamagedPackIsNotDeleted) {
  min_merged_packs_ = 2;
  const ChunkIndex packs(test_.store().packs_directory());
  Random random(TestSeed());
  const auto noise = [&random] {
    std::string text(200, '\0');
    for (char& byte : text) byte = static_cast<char>(random.Below(256));
    return text;
  };
  FileChunks files;
  std::vector<std::string> saved;
  for (const char letter : kLetters) {
    const std::string lost = noise();
    saved.push_back(noise());
    files[std::string(1, letter)] = {lost, saved.back()};
    test_.WritePack({saved.back()});
    const SealedPack damaged = test_.WritePack({lost, saved.back()});
    const std::string path = packs.PackPath(damaged.id);
    std::string bytes = ReadTestFile(path);
    for (const PackBlock& block : damaged.footer.blocks) bytes[block.offset + 20] ^= 1;
    WriteTestFile(path, bytes);
  }
  test_.WriteSnapshot({{"another", {Big('a')}}});
  std::vector<std::string> metadata;
  store::v1::Snapshot snapshot = test_.Describe(files, metadata);
  test_.WritePack(metadata);
  ASSERT_TRUE(test_.store().WriteSnapshot(snapshot).ok());
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  ChunkIndex after(test_.store().packs_directory());
  ASSERT_TRUE(after.Refresh().ok());
  ChunkReader reader(after, ChunkReader::Options());
  for (const std::string& chunk : saved) EXPECT_TRUE(reader.Read(RefOf(chunk)).ok());
}

TEST_F(CollectionTest, APackWhoseNameIsNotDurableIsNotCountedOn) {
  for (const char letter : kLetters) {
    const std::string chunk = Big(letter);
    test_.WriteSnapshot({{std::string(1, letter), {chunk}}});
    hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kSyncDirectory, "/packs/",
                                 absl::UnknownError("Input/output error")));
    PackWriter writer(test_.writer_options());
    ASSERT_TRUE(writer
                    .Add(RefOf(chunk).digest,
                         {reinterpret_cast<const std::uint8_t*>(chunk.data()), chunk.size()})
                    .ok());
    EXPECT_FALSE(writer.Flush().ok());
    hook_.RefuseWith({});
  }
  ASSERT_TRUE(Collect().ok());
  Random random(TestSeed());
  // That a pack is deleted may survive where the name of another does not.
  for (int cut = 0; cut < 20; ++cut) {
    const TemporaryFolder after(TemporaryFolder::Place::kMemory);
    hook_.CutPower(after.path(), DiskModel::Survival::kSome, random);
    const absl::Status restored = TestStore(after.path()).RestoreAll();
    EXPECT_TRUE(restored.ok()) << restored;
  }
}

// Both agents have looked for a plan before there was one, so only the collection can see them.
TEST_F(CollectionTest, WhatIsPublishedBeforeThePlanIsSeen) {
  test_.WritePack({Big('a')});
  test_.WritePack({Big('b')});
  index_.CommitAll(test_.store());
  store::v1::Snapshot pending;
  options_.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kMarked) {
      std::vector<std::string> metadata;
      store::v1::Snapshot checked = test_.Describe({{"a", {Big('a')}}}, metadata);
      pending = test_.Describe({{"b", {Big('b')}}}, metadata);
      test_.WritePack(metadata);
      EXPECT_TRUE(test_.store().WriteSnapshot(checked).ok());
      EXPECT_TRUE(PublishPending(test_.store(), pending).ok());
    }
    return step == CollectionStep::kMoved ? ConfirmPending(test_.store(), pending)
                                          : absl::OkStatus();
  };
  ASSERT_TRUE(Collect().ok());
  EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
  EXPECT_EQ(test_.store().ListSnapshots()->snapshots.size(), 2u);
  ExpectIndexTrue();
}

TEST_F(CollectionTest, ASnapshotThatIsMissedStopsIt) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  const std::vector<std::string> packs = test_.PackFiles();
  const std::string path = Store::SnapshotPath(test_.store().snapshots_directory(), snapshot.id());
  std::filesystem::rename(path, test_.directory() + "/aside");
  const absl::Status status = Collect().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(MessageOf(status)),
              AllOf(HasSubstr(snapshot.id()), HasSubstr("--accept-loss")));
  EXPECT_EQ(test_.PackFiles(), packs);
  std::filesystem::rename(test_.directory() + "/aside", path);
  EXPECT_TRUE(Collect().ok());
  // Nor does it run where nobody can know.
  std::filesystem::remove_all(test_.store().manifest().directory());
  EXPECT_TRUE(absl::IsDataLoss(Collect().status()));
}

TEST_F(CollectionTest, ForgottenSnapshotsAreRootsUntilTheirTimeIsOver) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  options_.max_forgotten_age_s = 3600;
  ASSERT_TRUE(Collect().ok());
  EXPECT_FALSE(test_.PackFiles().empty());
  EXPECT_EQ(test_.store().ListForgotten()->snapshots.size(), 1u);
  options_.max_forgotten_age_s = 0;
  options_.dry_run = true;
  EXPECT_GT(Collect()->deleted_pack_count, 0u);
  EXPECT_EQ(test_.store().ListForgotten()->snapshots.size(), 1u);
  options_.dry_run = false;
  ASSERT_TRUE(Collect().ok());
  EXPECT_TRUE(test_.PackFiles().empty());
  EXPECT_TRUE(test_.store().ListForgotten()->snapshots.empty());
}

TEST_F(CollectionTest, ASnapshotThatIsGoneDoesNotComeBackWithoutItsChunks) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  // As somebody does who has not come to make it durable yet.
  ASSERT_TRUE(test_.store().manifest().Remove(snapshot.id()).ok());
  ASSERT_TRUE(
      RemoveFile(Store::SnapshotPath(test_.store().snapshots_directory(), snapshot.id())).ok());
  ASSERT_TRUE(Collect().ok());
  EXPECT_TRUE(test_.PackFiles().empty());
  const TemporaryFolder after;
  hook_.CutPower(after.path());
  EXPECT_TRUE(TestStore(after.path()).store().ListSnapshots()->snapshots.empty());
}

}  // namespace
}  // namespace kerf::agent
