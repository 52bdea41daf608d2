#include "client/store/collect/collection_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

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

  FinishCheck Check(const CollectionGuard& guard, const std::vector<std::string>& chunks) {
    const auto visit = [&](const ChunkVisitor& visit_chunk) {
      ++visit_count_;
      for (const std::string& chunk : chunks) visit_chunk(RefOf(chunk));
      return absl::OkStatus();
    };
    auto check = guard.Check(test_.store(), index_, visit);
    EXPECT_TRUE(check.ok()) << check.status();
    return *std::move(check);
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

}  // namespace
}  // namespace kerf::agent
