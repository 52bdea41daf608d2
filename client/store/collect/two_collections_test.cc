// Collections beside each other, and beside those who forget: in any order of their operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/format/durable_file.h"
#include "client/store/testing/interleave.h"
#include "client/store/testing/meanwhile.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

using ::testing::AnyOf;
using ::testing::IsEmpty;

constexpr int kRounds = 60;

std::string Big(char letter) { return std::string(300, letter); }

// A store with a snapshot that stays, one that goes, a pack that is wasteful and one that is dead.
class TwoCollections {
 public:
  TwoCollections() {
    test_.WriteSnapshot({{"a", {Big('a')}}});
    goes_ = test_.WriteSnapshot({{"a", {Big('a')}}, {"b", {Big('b')}}}).id();
    test_.WritePack({Big('a'), Big('y')});
    test_.WritePack({Big('z')});
    index_.CommitAll(test_.store());
  }

  absl::Status Collect() {
    CollectionOptions options;
    options.max_waste_ratio = 0;
    options.min_merged_packs = 1000;
    options.thread_count = 1;
    const auto report = CollectGarbage(test_.store(), index_, options);
    if (!report.ok()) return report.status();
    EXPECT_THAT(report->damage, IsEmpty());
    EXPECT_EQ(report->missing_chunk_count, 0u);
    return absl::OkStatus();
  }
  absl::Status Forget() { return test_.store().RemoveSnapshot(goes_); }

  // Whatever was refused; then one more has nothing in its way.
  void Judge(const absl::Status& one, const absl::Status& other) {
    for (const absl::Status& status : {one, other}) {
      EXPECT_THAT(status.code(),
                  AnyOf(absl::StatusCode::kOk, absl::StatusCode::kFailedPrecondition))
          << status;
    }
    EXPECT_TRUE(one.ok() || other.ok()) << "each has refused for the other's sake";
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
    ExpectIndexIsTrue();
    EXPECT_TRUE(Forget().ok());
    const absl::Status last = Collect();
    EXPECT_TRUE(last.ok()) << last;
    EXPECT_TRUE(test_.RestoreAll().ok()) << test_.RestoreAll();
    ExpectIndexIsTrue();
    ChunkIndex packs(test_.store().packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    EXPECT_TRUE(packs.Contains(RefOf(Big('a')).digest));
    for (const char gone : {'b', 'y', 'z'}) {
      EXPECT_FALSE(packs.Contains(RefOf(Big(gone)).digest)) << gone;
    }
  }

 private:
  // It names no place that is not there.
  void ExpectIndexIsTrue() {
    ChunkIndex packs(test_.store().packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    for (const auto& [digest, locator] : index_.locators) {
      const std::optional<Locator> place = DecodeLocator(locator);
      ASSERT_TRUE(place.has_value());
      EXPECT_TRUE(MayExist(packs.PackPath(place->pack)));
    }
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  TestStore test_{folder_.path()};
  PlainIndex index_;
  std::string goes_;
};

TEST(TwoCollectionsTest, OneBeforeEachOperationOfTheOther) {
  SkipSyncForTest();
  bool came = true;
  for (int number = 0; came && !::testing::Test::HasFailure(); ++number) {
    SCOPED_TRACE(Cat("before operation ", number));
    TwoCollections two;
    absl::Status one;
    absl::Status other;
    {
      Meanwhile meanwhile(number, [&] { other = two.Collect(); });
      one = two.Collect();
      came = meanwhile.came();
    }
    two.Judge(one, other);
  }
}

TEST(TwoCollectionsTest, WithOneWhoForgetsInAnyOrderOfTheirOperations) {
  SkipSyncForTest();
  const std::uint64_t seed = TestSeed();
  bool was_refused = false;
  for (int round = 0; round < kRounds && !::testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(Cat("round ", round));
    TwoCollections two;
    absl::Status one;
    absl::Status other;
    {
      Interleave interleave(seed + static_cast<std::uint64_t>(round));
      interleave.Run({[&] { one = two.Collect(); }, [&] { other = two.Collect(); },
                      [&] { EXPECT_TRUE(two.Forget().ok()); }});
    }
    was_refused |= !one.ok() || !other.ok();
    two.Judge(one, other);
  }
  EXPECT_TRUE(was_refused) << "else they were never beside each other";
}

}  // namespace
}  // namespace kerf::agent
