#include "client/store/collect/index_rebuild.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "client/store/collect/collection.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

std::string Big(char letter) { return std::string(300, letter); }

class IndexRebuildTest : public testing::Test {
 protected:
  absl::StatusOr<RebuildReport> Rebuild() { return RebuildIndex(test_.store(), index_, options_); }

  // A session that is opened now is answered DUPLICATE for each chunk of the store, at a place
  // where the store has it; and the index knows of nothing else.
  void ExpectWhole() {
    const std::uint64_t epoch = *test_.store().ReadEpoch();
    EXPECT_EQ(index_.epoch, epoch);
    ChunkIndex packs(test_.store().packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    for (const auto& pack : packs.packs()) {
      for (const PackChunk& chunk : pack->footer.chunks) {
        EXPECT_TRUE(index_.locators.contains(chunk.digest));
      }
    }
    for (const auto& [digest, locator] : index_.locators) {
      const std::vector<ChunkPlace> places = packs.LocateAll(digest);
      EXPECT_TRUE(std::any_of(places.begin(), places.end(),
                              [&](const ChunkPlace& place) { return place.locator() == locator; }));
    }
    EXPECT_FALSE(std::filesystem::exists(test_.store().plan_path()));
  }

  TestStore test_;
  PlainIndex index_;
  RebuildOptions options_;
};

TEST_F(IndexRebuildTest, TheListOfChunksIsNotReadToItsEndForNobody) {
  options_.is_cancelled = [] { return true; };
  EXPECT_TRUE(absl::IsCancelled(Rebuild().status()));
}

TEST_F(IndexRebuildTest, AnEmptyIndexLearnsAllOfTheStore) {
  test_.WriteSnapshot({{"a", {Big('a'), Big('b')}}, {"c", {Big('c')}}});
  // A copy of a chunk in another pack.
  test_.WritePack({Big('a')});
  ASSERT_TRUE(test_.store().WriteEpoch(7).ok());
  index_ = PlainIndex();
  index_.epoch = 0;
  RebuildProgress last;
  options_.on_progress = [&](const RebuildProgress& progress) {
    last = progress;
    return absl::OkStatus();
  };
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  ExpectWhole();
  EXPECT_EQ(report->epoch, *test_.store().ReadEpoch());
  EXPECT_GT(report->epoch, 7u);
  EXPECT_EQ(report->removed_entry_count, 0u);
  EXPECT_EQ(report->chunk_count, index_.commit_count);
  EXPECT_EQ(last.done_count, report->chunk_count);
  EXPECT_EQ(last.total_count, report->chunk_count);
  EXPECT_EQ(last.done_bytes, last.total_bytes);
  EXPECT_TRUE(report->findings.empty());
  // And again.
  ASSERT_TRUE(Rebuild().ok());
  ExpectWhole();
  EXPECT_TRUE(test_.RestoreAll().ok());
}

TEST_F(IndexRebuildTest, OfAnEmptyStoreNothingIsKnown) {
  index_.Put(RefOf(Big('z')).digest, "somewhere", 1);
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(index_.locators.empty());
  EXPECT_EQ(report->removed_entry_count, 1u);
  ExpectWhole();
}

TEST_F(IndexRebuildTest, WhatTheStoreDoesNotHoldGoesWhateverItsEpoch) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  const std::uint64_t epoch = *test_.store().ReadEpoch();
  index_.epoch = epoch;
  index_.Put(RefOf(Big('y')).digest, EncodeLocator(PackId(), 0), 0);
  index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 1), epoch);
  // At a place that is none.
  index_.Put(RefOf(Big('a')).digest, EncodeLocator(PackId(), 2), epoch);
  // Of sessions that the store has forgotten: it was set back to an older copy of itself.
  for (const char letter : {'p', 'q', 'r', 's', 't'}) {
    index_.Put(RefOf(Big(letter)).digest, EncodeLocator(PackId(), 3), epoch + 1'000'000);
  }
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->removed_entry_count, 7u);
  ExpectWhole();
}

// Its pack and its commit come between the look at the packs and the forgetting.
TEST_F(IndexRebuildTest, WhatAnUploadStoresWhileItIsForgottenStays) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 1), 1'000'000);
  index_.before_forget = [&] {
    const SealedPack pack = test_.WritePack({Big('z')});
    index_.Put(RefOf(Big('z')).digest, EncodeLocator(pack.id, 0), *test_.store().ReadEpoch());
    index_.before_forget = nullptr;
  };
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('z')).digest));
  ExpectWhole();
}

// Its pack is there before it commits, and it may commit up to the fence.
TEST_F(IndexRebuildTest, WhatAnUploadCommitsBeforeTheFenceStays) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  options_.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kEpochRaised) {
      const SealedPack pack = test_.WritePack({Big('b')});
      index_.Put(RefOf(Big('b')).digest, EncodeLocator(pack.id, 0), 1);
    }
    return absl::OkStatus();
  };
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('b')).digest));
  EXPECT_EQ(report->removed_entry_count, 0u);
  ExpectWhole();
}

TEST_F(IndexRebuildTest, WhatAnUploadCommitsBehindTheFenceStays) {
  for (const CollectionStep when : {CollectionStep::kFenced, CollectionStep::kEpochRaisedAgain}) {
    options_.on_step = [&](CollectionStep step) {
      if (step == when) {
        const SealedPack pack = test_.WritePack({Big('b')});
        index_.Put(RefOf(Big('b')).digest, EncodeLocator(pack.id, 0), *test_.store().ReadEpoch());
      }
      return absl::OkStatus();
    };
    ASSERT_TRUE(Rebuild().ok());
    EXPECT_TRUE(index_.locators.contains(RefOf(Big('b')).digest));
    ExpectWhole();
  }
}

// Behind any step, and behind the first batch; then another rebuilding, or a collection.
TEST_F(IndexRebuildTest, OneThatWasInterruptedIsMadeGoodByTheNext) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  for (const bool by_collection : {false, true}) {
    for (const CollectionStep last :
         {CollectionStep::kLocked, CollectionStep::kPlanned, CollectionStep::kEpochRaised,
          CollectionStep::kFenced, CollectionStep::kEpochRaisedAgain, CollectionStep::kAdvanced}) {
      index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 0), *test_.store().ReadEpoch());
      index_.Remove(RefOf(Big('a')).digest);
      options_.on_step = [last](CollectionStep step) {
        return step == last ? absl::CancelledError("interrupted") : absl::OkStatus();
      };
      options_.on_progress = [last](const RebuildProgress& progress) {
        return last == CollectionStep::kEpochRaisedAgain && progress.done_count > 0
                   ? absl::CancelledError("interrupted")
                   : absl::OkStatus();
      };
      EXPECT_TRUE(absl::IsCancelled(Rebuild().status()));
      options_ = {};
      if (by_collection && last != CollectionStep::kLocked && last != CollectionStep::kAdvanced) {
        ASSERT_TRUE(CollectGarbage(test_.store(), index_, {}).ok());
      } else {
        ASSERT_TRUE(Rebuild().ok());
      }
      ExpectWhole();
    }
  }
}

TEST_F(IndexRebuildTest, ACollectionAndItExcludeEachOther) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  options_.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kPlanned) return absl::OkStatus();
    EXPECT_TRUE(absl::IsFailedPrecondition(CollectGarbage(test_.store(), index_, {}).status()));
    EXPECT_TRUE(absl::IsFailedPrecondition(RebuildIndex(test_.store(), index_, {}).status()));
    return absl::OkStatus();
  };
  ASSERT_TRUE(Rebuild().ok());
  CollectionOptions collection;
  collection.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kMarked) return absl::OkStatus();
    EXPECT_TRUE(absl::IsFailedPrecondition(RebuildIndex(test_.store(), index_, {}).status()));
    return absl::OkStatus();
  };
  ASSERT_TRUE(CollectGarbage(test_.store(), index_, collection).ok());
  ExpectWhole();
}

TEST_F(IndexRebuildTest, ChunksOfAPackThatCannotBeReadAreForgottenAndItIsNamed) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  const SealedPack pack = test_.WritePack({Big('b')});
  index_.CommitAll(test_.store());
  const std::string path = ChunkIndex(test_.store().packs_directory()).PackPath(pack.id);
  std::filesystem::resize_file(path, 50);
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->damaged_pack_count, 1u);
  ASSERT_EQ(report->findings.size(), 1u);
  EXPECT_NE(report->findings[0].find(path), std::string::npos) << report->findings[0];
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('b')).digest));
  ExpectWhole();
}

TEST_F(IndexRebuildTest, AStoreThatWasSetBackIsFollowed) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.epoch = 9;
  index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 0), 9);
  const auto report = Rebuild();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_GT(report->epoch, 9u);
  ASSERT_EQ(report->findings.size(), 2u);
  EXPECT_NE(report->findings[1].find("kerf verify"), std::string::npos) << report->findings[1];
  ExpectWhole();
}

}  // namespace
}  // namespace kerf::agent
