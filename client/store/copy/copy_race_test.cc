// Copying out of a store in which snapshots are forgotten and collected meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/copy/copy_run.h"
#include "client/store/format/durable_file.h"
#include "client/store/testing/interleave.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::IsEmpty;

constexpr int kRounds = 60;

std::string Big(char letter) { return std::string(300, letter); }

// Two snapshots that share a chunk, of which the first one is forgotten.
class CopyRace {
 public:
  CopyRace() {
    const store::v1::Snapshot goes = from_.WriteSnapshot({{"a", {Big('a')}}, {"b", {Big('b')}}});
    const store::v1::Snapshot stays = from_.WriteSnapshot({{"a", {Big('a')}}, {"c", {Big('c')}}});
    goes_ = goes.id();
    stays_ = stays.id();
    snapshots_ = {goes, stays};
    index_.CommitAll(from_.store());
  }

  void Copy() {
    CopyOptions options;
    options.transfer.thread_count = 1;
    options.on_snapshot = [this](const SnapshotCopy& copy) { said_[copy.id] = copy; };
    const auto report = CopySnapshots(from_.store(), to_.store(), snapshots_, options);
    EXPECT_TRUE(report.ok()) << report.status();
  }
  void ForgetAndCollect() {
    EXPECT_TRUE(from_.store().RemoveSnapshot(goes_).ok());
    CollectionOptions options;
    options.max_waste_ratio = 0;
    options.thread_count = 1;
    const auto report = CollectGarbage(from_.store(), index_, options);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->damage, IsEmpty());
  }

  // Returns what became of the one that was forgotten.
  CopyOutcome Judge() {
    EXPECT_EQ(said_[stays_].outcome, CopyOutcome::kCopied) << said_[stays_].status;
    const SnapshotCopy& goes = said_[goes_];
    // Forgotten is not damaged.
    if (goes.outcome == CopyOutcome::kFailed) {
      EXPECT_TRUE(absl::IsNotFound(goes.status)) << goes.status;
    }
    EXPECT_EQ(to_.store().ListSnapshots()->snapshots.size(),
              goes.outcome == CopyOutcome::kCopied ? 2u : 1u);
    EXPECT_TRUE(to_.RestoreAll().ok()) << to_.RestoreAll();
    EXPECT_TRUE(from_.RestoreAll().ok()) << from_.RestoreAll();
    return goes.outcome;
  }

 private:
  const TemporaryFolder from_folder_{TemporaryFolder::Place::kMemory};
  const TemporaryFolder to_folder_{TemporaryFolder::Place::kMemory};
  TestStore from_{from_folder_.path()};
  TestStore to_{to_folder_.path()};
  PlainIndex index_;
  std::string goes_;
  std::string stays_;
  std::vector<store::v1::Snapshot> snapshots_;
  std::map<std::string, SnapshotCopy> said_;
};

TEST(CopyRaceTest, ACollectionBeforeEachOperationOfTheCopying) {
  SkipSyncForTest();
  std::set<CopyOutcome> outcomes;
  bool came = true;
  for (int number = 0; came && !::testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    CopyRace race;
    {
      Meanwhile meanwhile(number, [&] { race.ForgetAndCollect(); });
      race.Copy();
      came = meanwhile.came();
    }
    outcomes.insert(race.Judge());
  }
  EXPECT_EQ(outcomes.size(), 2u) << "copied, and forgotten meanwhile";
}

TEST(CopyRaceTest, InAnyOrderOfTheirOperations) {
  SkipSyncForTest();
  const std::uint64_t seed = TestSeed();
  std::set<CopyOutcome> outcomes;
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(Cat("round ", round));
    CopyRace race;
    {
      Interleave interleave(seed + static_cast<std::uint64_t>(round));
      interleave.Run({[&] { race.Copy(); }, [&] { race.ForgetAndCollect(); }});
    }
    outcomes.insert(race.Judge());
  }
  EXPECT_EQ(outcomes.size(), 2u) << "copied, and forgotten meanwhile";
}

}  // namespace
}  // namespace kerf::agent
