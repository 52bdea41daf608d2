// What a collection believes of an index that goes back in time.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/collection_plan.h"
#include "client/store/collect/index_rebuild.h"
#include "client/store/testing/disk_hook.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

std::string Big(char letter) { return std::string(1, letter) + std::string(300, letter); }

class CollectionIndexTest : public testing::Test {
 protected:
  absl::StatusOr<CollectionReport> Collect() {
    options_.max_waste_ratio = 0;
    options_.min_merged_packs = 1000;
    options_.thread_count = 1;
    return CollectGarbage(test_.store(), index_, options_);
  }

  // The index holds what these files reference, and nothing of which there is no pack.
  void ExpectIndexIs(const std::vector<std::string>& files) {
    ChunkIndex packs(test_.store().packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    for (const auto& [digest, locator] : index_.locators) EXPECT_TRUE(packs.Contains(digest));
    for (const std::string& file : files) {
      EXPECT_TRUE(index_.locators.contains(RefOf(Big(file.front())).digest)) << file;
    }
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  DiskHook hook_{folder_.path()};
  TestStore test_{folder_.path()};
  PlainIndex index_;
  CollectionOptions options_;
};

TEST_F(CollectionIndexTest, AStoreThatWasSetBackGoesOnFromItsIndex) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  index_.locators[RefOf(Big('z')).digest] = EncodeLocator(PackId(), 0);
  index_.epoch = 5;
  auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->epoch, 8u);
  EXPECT_EQ(*test_.store().ReadEpoch(), 8u);
  // What it had of the lost time is gone from it.
  EXPECT_EQ(index_.epoch, 8u);
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('z')).digest));
  EXPECT_EQ(report->findings.size(), 2u);
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
  EXPECT_TRUE(test_.RestoreAll().ok());
  report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->epoch, 10u);
  EXPECT_TRUE(report->findings.empty());
}

TEST_F(CollectionIndexTest, AStoreThatWasSetBackGoesOnAfterACrashToo) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.epoch = 5;
  index_.locators[RefOf(Big('z')).digest] = EncodeLocator(PackId(), 0);
  for (const CollectionStep last : {CollectionStep::kPlanned, CollectionStep::kEpochRaised,
                                    CollectionStep::kFenced, CollectionStep::kEpochRaisedAgain}) {
    options_.on_step = [last](CollectionStep step) {
      return step == last ? absl::CancelledError("crash") : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsCancelled(Collect().status()));
  }
  options_.on_step = nullptr;
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('z')).digest));
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
  EXPECT_TRUE(test_.RestoreAll().ok());
}

// As one that is so large that it is told no epoch in the time that the server has.
TEST_F(CollectionIndexTest, AnIndexThatTakesNoEpochCostsTheStoreOneRoundAtMost) {
  for (const bool rebuilds : {false, true}) {
    for (const bool is_behind : {false, true}) {
      SCOPED_TRACE(Cat(rebuilds, is_behind));
      test_.WriteSnapshot({{"a", {Big('a')}}});
      index_.CommitAll(test_.store());
      ASSERT_TRUE(Collect().ok());
      const std::uint64_t epoch = *test_.store().ReadEpoch();
      ASSERT_EQ(index_.epoch, epoch);
      if (is_behind) index_.epoch = 1;
      index_.advance_status = absl::UnavailableError("it takes too long");
      const auto run = [&] {
        return rebuilds ? RebuildIndex(test_.store(), index_, {}).status() : Collect().status();
      };
      EXPECT_TRUE(absl::IsUnavailable(run()));
      const std::uint64_t epoch_behind = *test_.store().ReadEpoch();
      EXPECT_LE(epoch_behind, epoch + 2);
      for (int more = 0; more < 5; ++more) {
        EXPECT_TRUE(absl::IsUnavailable(run()));
        EXPECT_EQ(*test_.store().ReadEpoch(), epoch_behind);
      }
      index_.advance_status = absl::OkStatus();
      EXPECT_TRUE(run().ok());
      EXPECT_LE(*test_.store().ReadEpoch(), epoch + 5);
      EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
      EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
      EXPECT_TRUE(test_.RestoreAll().ok());
    }
  }
}

// What it is told to pay it does, and nobody hears of it; or it has gone back meanwhile.
TEST_F(CollectionIndexTest, ADebtIsPaidToAnIndexThatGoesBackMeanwhile) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  ASSERT_TRUE(Collect().ok());
  index_.advance_status = absl::UnavailableError("it takes too long");
  EXPECT_TRUE(absl::IsUnavailable(Collect().status()));
  index_.advance_status = absl::OkStatus();
  // Behind what is read of it, before it is told the debt.
  bool has_gone_back = false;
  index_.before_change = [&]() -> absl::Status {
    if (!std::exchange(has_gone_back, true)) {
      index_.epoch = 1;
      index_.locators.clear();
      index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 0), 1);
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Collect().ok());
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('z')).digest));
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
}

// Of which no plan says so yet: raised to what it should have had, it would look like one that has
// lost nothing.
TEST_F(CollectionIndexTest, NothingIsPaidToAnIndexOfWhichNoPlanSaysThatItWentBack) {
  for (const CollectionStep last :
       {CollectionStep::kMarked, CollectionStep::kPlanned, CollectionStep::kEpochRaised}) {
    test_.WriteSnapshot({{"a", {Big('a')}}});
    index_.CommitAll(test_.store());
    options_.on_step = nullptr;
    ASSERT_TRUE(Collect().ok());
    index_.advance_status = absl::UnavailableError("it takes too long");
    EXPECT_TRUE(absl::IsUnavailable(Collect().status()));
    index_.advance_status = absl::OkStatus();
    index_.epoch = 1;
    index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 0), 1);
    options_.on_step = [last](CollectionStep step) {
      return step == last ? absl::CancelledError("crash") : absl::OkStatus();
    };
    EXPECT_TRUE(absl::IsCancelled(Collect().status()));
    options_.on_step = nullptr;
    ASSERT_TRUE(Collect().ok());
    EXPECT_FALSE(index_.locators.contains(RefOf(Big('z')).digest));
    EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
  }
}

// A failover to a copy that misses the last writes, but not the fence before them.
TEST_F(CollectionIndexTest, AnIndexThatLosesWhatItWasToldToForgetIsToldAgain) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  for (const CollectionStep failover : {CollectionStep::kForgotten, CollectionStep::kMovesCommitted,
                                        CollectionStep::kEpochRaisedAgain}) {
    const PlainIndex before = index_;
    options_.on_step = [&](CollectionStep step) {
      if (step == failover) index_.locators = before.locators;
      return absl::OkStatus();
    };
    ASSERT_TRUE(Collect().ok());
    EXPECT_TRUE(index_.locators.empty());
    test_.WritePack({Big('a')});
    index_.CommitAll(test_.store());
  }
}

// It names a chunk that an earlier collection has deleted. Raised to the fence it would look like
// one that has lost nothing, so a collection that dies there must have written down that it is not.
TEST_F(CollectionIndexTest, AnIndexThatWentBackBeforeTheFenceIsNotTrustedAfterACrash) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  ASSERT_TRUE(Collect().ok());
  options_.on_step = [this](CollectionStep step) {
    if (step != CollectionStep::kEpochRaised) return absl::OkStatus();
    index_.epoch = 1;
    index_.locators[RefOf(Big('z')).digest] = EncodeLocator(PackId(), 0);
    hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kCreate, "", absl::UnavailableError("cut")));
    return absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsUnavailable(Collect().status()));
  options_.on_step = nullptr;
  hook_.RefuseWith(nullptr);
  ASSERT_TRUE(Collect().ok());
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('z')).digest));
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
}

TEST_F(CollectionIndexTest, AnIndexThatWentBackBehindTheFenceIsNotTrustedAfterACrash) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  ASSERT_TRUE(Collect().ok());
  options_.on_step = [this](CollectionStep step) {
    if (step != CollectionStep::kEpochRaisedAgain) return absl::OkStatus();
    index_.epoch = 1;
    index_.locators[RefOf(Big('z')).digest] = EncodeLocator(PackId(), 0);
    hook_.RefuseWith(RefuseEvery(FileOperation::Kind::kCreate, "", absl::UnavailableError("cut")));
    return absl::OkStatus();
  };
  // Whether it comes to its end does not matter.
  Collect().IgnoreError();
  options_.on_step = nullptr;
  hook_.RefuseWith(nullptr);
  ASSERT_TRUE(Collect().ok());
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
  EXPECT_FALSE(index_.locators.contains(RefOf(Big('z')).digest));
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('a')).digest));
}

// Two failovers: a copy that has forgotten the chunk but does not know the last epoch answers, and
// one that knows the epoch and the chunk comes back.
TEST_F(CollectionIndexTest, OnlyAnIndexThatKnowsTheLastEpochIsBelievedToHaveForgotten) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  const std::map<Digest, std::string> all = index_.locators;
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  options_.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kEpochRaisedAgain) {
      index_.locators = all;
      index_.before_forget = [this] {
        index_.epoch = 2;
        index_.locators.clear();
      };
    }
    if (step == CollectionStep::kDeleted) {
      index_.epoch = 3;
      index_.locators = all;
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Collect().ok());
  EXPECT_TRUE(test_.PackFiles().empty());
  EXPECT_LT(index_.epoch, *test_.store().ReadEpoch());
}

// A failover within the last epoch that nobody sees: what it brings back is removed by an agent's
// report, and what removed it is lost by another one.
TEST_F(CollectionIndexTest, AnIndexFromWhichAnotherHasRemovedIsNotBelieved) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  const PlainIndex before = index_;
  PlainIndex with_it;
  bool is_back = false;
  options_.on_step = [&](CollectionStep step) {
    if (step != CollectionStep::kEpochRaisedAgain) return absl::OkStatus();
    index_.locators = before.locators;
    index_.before_forget = [&] {
      if (std::exchange(is_back, true)) return;
      with_it = index_;
      for (const auto& [digest, locator] : before.locators) index_.Remove(digest);
    };
    return absl::OkStatus();
  };
  ASSERT_TRUE(Collect().ok());
  ASSERT_TRUE(is_back);
  EXPECT_TRUE(test_.PackFiles().empty());
  EXPECT_FALSE(with_it.locators.empty());
  EXPECT_LT(with_it.epoch, *test_.store().ReadEpoch());
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
}

TEST_F(CollectionIndexTest, AnIndexThatWentBackBecomesWholeAgain) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  ASSERT_TRUE(Collect().ok());
  index_.epoch = 1;
  index_.Put(RefOf(Big('z')).digest, EncodeLocator(PackId(), 0), 2);
  auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->findings.size(), 1u);
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
  ExpectIndexIs({"a"});
  // It is believed again.
  index_.commit_count = 0;
  report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(report->findings.empty());
  EXPECT_EQ(index_.commit_count, 0u);
}

// Whoever has read the plan has committed no place that goes.
TEST_F(CollectionIndexTest, WhatAgentsCommitWhileTheIndexIsMadeWholeStays) {
  ASSERT_TRUE(Collect().ok());
  index_.epoch = 1;
  options_.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kMarkedAgain) {
      test_.WriteSnapshot({{"b", {Big('b')}}});
      index_.Put(RefOf(Big('b')).digest, "somewhere", *test_.store().ReadEpoch());
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(Collect().ok());
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
  EXPECT_TRUE(index_.locators.contains(RefOf(Big('b')).digest));
}

// A collection died between the store's last epoch and the index's, with nothing deleted; and two
// died in a row before the fence.
TEST_F(CollectionIndexTest, AnIndexThatWasNotToldBecauseACollectionDiedIsBelieved) {
  for (const auto& deaths : std::vector<std::vector<CollectionStep>>{
           {CollectionStep::kEpochRaisedAgain},
           {CollectionStep::kEpochRaised},
           {CollectionStep::kFenced, CollectionStep::kPlanned},
           {CollectionStep::kEpochRaised, CollectionStep::kEpochRaised},
           {CollectionStep::kEpochRaisedAgain, CollectionStep::kEpochRaisedAgain},
           {CollectionStep::kAdvanced, CollectionStep::kEpochRaised},
           {CollectionStep::kDeleted},
           {CollectionStep::kDeadDeleted, CollectionStep::kEpochRaisedAgain},
           {CollectionStep::kPlanRemoved}}) {
    const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
    index_.CommitAll(test_.store());
    ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
    for (const CollectionStep last : deaths) {
      options_.on_step = [last](CollectionStep step) {
        return step == last ? absl::CancelledError("crash") : absl::OkStatus();
      };
      ASSERT_TRUE(absl::IsCancelled(Collect().status()));
    }
    options_.on_step = nullptr;
    const auto report = Collect();
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_TRUE(report->findings.empty()) << static_cast<int>(deaths.front());
    EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
    EXPECT_TRUE(index_.locators.empty());
  }
}

// Once chunks have been deleted, only the epoch that the index was told last will do.
TEST_F(CollectionIndexTest, AnIndexThatWentBackBeforeACollectionThatDeletedIsNotBelieved) {
  const store::v1::Snapshot snapshot = test_.WriteSnapshot({{"a", {Big('a')}}});
  index_.CommitAll(test_.store());
  const PlainIndex before = index_;
  ASSERT_TRUE(test_.store().RemoveSnapshot(snapshot.id()).ok());
  PlainIndex fenced;
  options_.on_step = [&](CollectionStep step) {
    if (step == CollectionStep::kFenced) fenced = index_;
    return step == CollectionStep::kDeleted ? absl::CancelledError("crash") : absl::OkStatus();
  };
  ASSERT_TRUE(absl::IsCancelled(Collect().status()));
  options_.on_step = nullptr;
  EXPECT_TRUE(test_.PackFiles().empty());
  EXPECT_FALSE(fenced.locators.empty());
  index_ = fenced;
  const auto report = Collect();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->findings.size(), 1u);
  EXPECT_TRUE(index_.locators.empty());
  EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
}

TEST_F(CollectionIndexTest, APlanOfAnEarlierKerfIsUnderstood) {
  CollectionPlan plan;
  plan.target_epoch = 7;
  plan.index_is_behind = true;
  const auto old_one = DecodeCollectionPlan(EncodeCollectionPlan(plan));
  ASSERT_TRUE(old_one.ok()) << old_one.status();
  EXPECT_FALSE(old_one->min_index_epoch.has_value());
  EXPECT_TRUE(old_one->index_is_behind);
  plan.min_index_epoch = 300;
  const auto new_one = DecodeCollectionPlan(EncodeCollectionPlan(plan));
  ASSERT_TRUE(new_one.ok()) << new_one.status();
  EXPECT_EQ(new_one->min_index_epoch, 300u);
  EXPECT_EQ(new_one->target_epoch, 7u);
  // It says nothing of what the index must know but its own last epoch.
  plan.min_index_epoch.reset();
  plan.index_is_behind = false;
  plan.target_epoch = 3;
  for (const std::uint64_t index_epoch : {2, 3}) {
    ASSERT_TRUE(
        WriteCollectionPlan(test_.store().plan_path(), test_.store().temporary_directory(), plan)
            .ok());
    ASSERT_TRUE(test_.store().WriteEpoch(3).ok());
    index_.epoch = index_epoch;
    EXPECT_EQ(Collect()->findings.size(), index_epoch == 3 ? 0u : 1u);
  }
}

}  // namespace
}  // namespace kerf::agent
