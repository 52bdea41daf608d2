#include "client/store/collect/collection_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/strings.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

class CollectionGuardTest : public testing::Test {
 protected:
  CollectionGuardTest() : index_(test_.store().packs_directory()) {}

  // Says that of these packs the chunks at `condemned` positions go.
  void Plan(std::vector<PlannedPack> packs) {
    CollectionPlan plan;
    plan.target_epoch = 3;
    plan.packs = std::move(packs);
    std::sort(plan.packs.begin(), plan.packs.end(),
              [](const PlannedPack& a, const PlannedPack& b) { return a.id < b.id; });
    ASSERT_TRUE(
        WriteCollectionPlan(test_.store().plan_path(), test_.store().temporary_directory(), plan)
            .ok());
  }

  CollectionGuard Begin() {
    CollectionGuard guard = *CollectionGuard::Begin(test_.store());
    EXPECT_TRUE(index_.Refresh().ok());
    return guard;
  }

  // With a list of the store's chunks, and without: whoever has none finds the same.
  FinishCheck Check(const CollectionGuard& guard, const std::vector<std::string>& chunks) {
    const auto visit = [&](const ChunkVisitor& visit_chunk) {
      ++visit_count_;
      for (const std::string& chunk : chunks) visit_chunk(RefOf(chunk));
      return absl::OkStatus();
    };
    const int visits_before = visit_count_;
    auto check = guard.Check(test_.store(), index_, visit);
    EXPECT_TRUE(check.ok()) << check.status();
    const int visits_after = visit_count_;
    EXPECT_EQ(check->lost_count, check->lost.size());
    for (const std::size_t max_chunk_count : {1, 2, 100}) {
      visit_count_ = visits_before;
      auto by_footers = guard.CheckByFooters(test_.store(), {max_chunk_count, 100}, visit);
      EXPECT_TRUE(by_footers.ok()) << by_footers.status();
      EXPECT_EQ(visit_count_, visits_after);
      EXPECT_EQ(by_footers->next.epoch(), check->next.epoch());
      EXPECT_EQ(Once(by_footers->lost), Once(check->lost)) << max_chunk_count << " at a time";
    }
    return *std::move(check);
  }

  static std::set<Digest> Once(const std::vector<ChunkRef>& chunks) {
    std::set<Digest> digests;
    for (const ChunkRef& chunk : chunks) digests.insert(chunk.digest);
    return digests;
  }

  static std::vector<ChunkRef> Refs(const std::vector<std::string>& chunks) {
    std::vector<ChunkRef> refs;
    refs.reserve(chunks.size());
    for (const std::string& chunk : chunks) refs.push_back(RefOf(chunk));
    return refs;
  }

  TestStore test_;
  ChunkIndex index_;
  int visit_count_ = 0;
};

TEST_F(CollectionGuardTest, WithoutACollectionNothingIsLookedAt) {
  const CollectionGuard guard = Begin();
  EXPECT_EQ(guard.epoch(), 1u);
  EXPECT_TRUE(guard.Condemned(index_).empty());
  EXPECT_TRUE(Check(guard, {"nowhere"}).lost.empty());
  EXPECT_EQ(visit_count_, 0);
}

TEST_F(CollectionGuardTest, AnIndexEpochThatRoseIsReasonToLook) {
  CollectionGuard guard = Begin();
  // An index may be behind its store: nobody has told it.
  for (const std::uint64_t epoch : {0, 1}) guard.NoteIndexEpoch(epoch);
  EXPECT_TRUE(Check(guard, {"nowhere"}).lost.empty());
  EXPECT_EQ(visit_count_, 0);
  // What was told once stays told.
  for (const std::uint64_t epoch : {2, 1}) guard.NoteIndexEpoch(epoch);
  EXPECT_EQ(Check(guard, {"nowhere"}).lost, Refs({"nowhere"}));
}

TEST_F(CollectionGuardTest, OnlyChunksWithNoSafePlaceAreCondemned) {
  const SealedPack goes = test_.WritePack({"goes", "moves", "also elsewhere", "goes twice"});
  const SealedPack goes_too = test_.WritePack({"goes twice"});
  test_.WritePack({"also elsewhere"});
  Plan({{goes.id, {true, false, true, true}}, {goes_too.id, {true}}});
  const CollectionGuard guard = Begin();
  const DigestSet condemned = guard.Condemned(index_);
  EXPECT_EQ(condemned.size(), 2u);
  EXPECT_TRUE(condemned.contains(RefOf("goes").digest));
  EXPECT_TRUE(condemned.contains(RefOf("goes twice").digest));
}

// Of two copies one goes: it matters which of them would be committed.
TEST_F(CollectionGuardTest, APlaceThatGoesIsNotTrustedThoughAnotherCopyIsSafe) {
  const SealedPack one = test_.WritePack({"twice"});
  const SealedPack other = test_.WritePack({"twice"});
  ASSERT_TRUE(index_.Refresh().ok());
  const PackId first = index_.Locate(RefOf("twice").digest)->pack->id;
  const PackId second = first == one.id ? other.id : one.id;
  Plan({{first, {true}}});
  EXPECT_TRUE(Begin().Distrusted(index_).contains(RefOf("twice").digest));
  EXPECT_TRUE(Begin().Condemned(index_).empty());
  Plan({{second, {true}}});
  EXPECT_TRUE(Begin().Distrusted(index_).empty());
}

TEST_F(CollectionGuardTest, APlanThatCameMeanwhileIsHeeded) {
  const SealedPack pack = test_.WritePack({"goes", "moves"});
  test_.WritePack({"stays"});
  const CollectionGuard guard = Begin();
  // The collection has got as far as its plan: the epoch is still the same.
  Plan({{pack.id, {true, false}}});
  const FinishCheck check = Check(guard, {"goes", "goes", "moves", "stays"});
  EXPECT_EQ(check.lost, Refs({"goes"}));
  EXPECT_EQ(visit_count_, 1);
}

TEST_F(CollectionGuardTest, APlanThatWasThereIsHeededAtTheEnd) {
  const SealedPack pack = test_.WritePack({"goes"});
  Plan({{pack.id, {true}}});
  const CollectionGuard guard = Begin();
  EXPECT_EQ(Check(guard, {"goes"}).lost, Refs({"goes"}));
  // It has been carried out since.
  std::filesystem::remove(index_.PackPath(pack.id));
  ASSERT_TRUE(RemoveCollectionPlan(test_.store().plan_path()).ok());
  EXPECT_EQ(Check(guard, {"goes"}).lost, Refs({"goes"}));
}

TEST_F(CollectionGuardTest, AChunkThatWasStoredAgainIsSafe) {
  const SealedPack pack = test_.WritePack({"goes"});
  Plan({{pack.id, {true}}});
  const CollectionGuard guard = Begin();
  index_.AddPack(test_.WritePack({"goes"}));
  EXPECT_TRUE(guard.Condemned(index_).empty());
  EXPECT_TRUE(Check(guard, {"goes"}).lost.empty());
}

TEST_F(CollectionGuardTest, AnEpochThatRoseMeansThatPacksMayBeGone) {
  const SealedPack pack = test_.WritePack({"gone"});
  const CollectionGuard guard = Begin();
  ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
  std::filesystem::remove(index_.PackPath(pack.id));
  const FinishCheck check = Check(guard, {"gone"});
  EXPECT_EQ(check.lost, Refs({"gone"}));
  EXPECT_EQ(check.next.epoch(), 3u);
}

// In the first list neither of the two packs is.
TEST_F(CollectionGuardTest, AChunkThatIsMovedWhileThePacksAreListedIsNotLost) {
  const SealedPack goes = test_.WritePack({"moved", "gone"});
  const CollectionGuard guard = Begin();
  ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
  std::filesystem::remove(index_.PackPath(goes.id));
  const auto check = guard.Check(test_.store(), index_, [this](const ChunkVisitor& visit_chunk) {
    test_.WritePack({"moved"});
    visit_chunk(RefOf("moved"));
    visit_chunk(RefOf("gone"));
    return absl::OkStatus();
  });
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->lost, Refs({"gone"}));
  EXPECT_EQ(check->lost_count, 1u);
}

// And if it has come to a place that goes, too, it is lost all the same.
TEST_F(CollectionGuardTest, AChunkThatIsMovedToAPlaceThatGoesIsLost) {
  const CollectionGuard guard = Begin();
  const SealedPack goes = test_.WritePack({"other"});
  Plan({{goes.id, {true}}});
  const std::string away = index_.PackPath(goes.id) + ".away";
  std::filesystem::rename(index_.PackPath(goes.id), away);
  const auto check = guard.Check(test_.store(), index_, [&](const ChunkVisitor& visit_chunk) {
    std::filesystem::rename(away, index_.PackPath(goes.id));
    visit_chunk(RefOf("other"));
    return absl::OkStatus();
  });
  ASSERT_TRUE(check.ok()) << check.status();
  EXPECT_EQ(check->lost, Refs({"other"}));
}

// Of a collection that took nearly all that a long backup has stored.
TEST_F(CollectionGuardTest, WhatIsNotListedOfTheLostIsCounted) {
  const CollectionGuard guard = Begin();
  ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
  const auto visit = [&](const ChunkVisitor& visit_chunk) {
    for (int number = 0; number < 10; ++number) visit_chunk(RefOf(Cat("gone ", number)));
    return absl::OkStatus();
  };
  for (const std::size_t max_lost_count : {0, 1, 4, 10, 20}) {
    const auto check = guard.CheckByFooters(test_.store(), {3, max_lost_count}, visit);
    ASSERT_TRUE(check.ok()) << check.status();
    EXPECT_EQ(check->lost_count, 10u);
    // Nobody takes that for nothing.
    EXPECT_EQ(check->lost.size(), std::clamp<std::size_t>(max_lost_count, 1, 10));
  }
}

TEST_F(CollectionGuardTest, AFolderThatCannotBeListedIsNoAnswer) {
  const SealedPack pack = test_.WritePack({"chunk"});
  const CollectionGuard guard = Begin();
  ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
  const auto folder = std::filesystem::path(index_.PackPath(pack.id)).parent_path();
  std::filesystem::rename(folder, folder.string() + ".away");
  std::filesystem::create_symlink(folder.filename(), folder);
  const auto check =
      guard.CheckByFooters(test_.store(), {100, 100}, [](const ChunkVisitor& visit_chunk) {
        visit_chunk(RefOf("chunk"));
        return absl::OkStatus();
      });
  EXPECT_FALSE(check.ok());
}

TEST_F(CollectionGuardTest, APlaceIsCondemnedByThePlanThatWasThere) {
  const SealedPack pack = test_.WritePack({"goes", "moves"});
  EXPECT_TRUE(index_.Refresh().ok());
  const ChunkPlace goes = *index_.Locate(RefOf("goes").digest);
  const ChunkPlace moves = *index_.Locate(RefOf("moves").digest);
  EXPECT_FALSE(Begin().Condemns(goes));
  Plan({{pack.id, {true, false}}});
  EXPECT_TRUE(Begin().Condemns(goes));
  EXPECT_FALSE(Begin().Condemns(moves));
}

}  // namespace
}  // namespace kerf::agent
