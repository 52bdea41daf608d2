// At whatever moment an index goes back in time, and a collection dies: two thousand simulations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/index_rebuild.h"
#include "client/store/testing/plain_index.h"
#include "client/store/testing/test_store.h"

namespace kerf::agent {
namespace {

std::string Big(char letter) { return std::string(1, letter) + std::string(300, letter); }

// A chunk that is gone, and an index that has once named it.
class SetBackIndexTest : public testing::Test {
 protected:
  absl::StatusOr<CollectionReport> Collect() {
    CollectionOptions options;
    options.max_waste_ratio = 0;
    options.min_merged_packs = 1000;
    options.thread_count = 1;
    return CollectGarbage(test_.store(), index_, options);
  }

  struct Plan {
    // The index is rebuilt, instead of a collection.
    bool rebuilds = false;
    bool begins_behind = false;
    // Before this call the index becomes what it was ...
    std::size_t setback_call = 0;
    // ... before that one; 0: what it was before it forgot the chunk.
    std::size_t back_to = 0;
    // The collection dies so many calls later; 0: never.
    std::size_t crash_calls = 0;
    // Before this call the index is set back a second time; 0: never.
    std::size_t second_call = 0;
    std::size_t second_back_to = 0;
  };

  // False if the collection made fewer calls.
  bool Run(const Plan& plan) {
    const SealedPack condemned = test_.WritePack({Big('y')});
    condemned_path_ = ChunkIndex(test_.store().packs_directory()).PackPath(condemned.id);
    PlainIndex old;
    old.epoch = 2;
    old.Put(gone_, EncodeLocator(PackId(), 0), 1);
    old.Put(condemned_, EncodeLocator(condemned.id, 0), 3);
    index_ = PlainIndex();
    index_.epoch = 3;
    if (plan.begins_behind) index_ = old;
    EXPECT_TRUE(test_.store().WriteEpoch(3).ok());
    std::vector<PlainIndex> past = {old};
    index_.before_change = [&]() -> absl::Status {
      past.push_back(index_);
      if (past.size() == plan.setback_call + 1) index_.SetBack(past[plan.back_to]);
      if (plan.second_call != 0 && past.size() == plan.second_call + 1) {
        index_.SetBack(past[plan.second_back_to]);
      }
      if (plan.crash_calls != 0 && past.size() == plan.setback_call + plan.crash_calls + 1) {
        return absl::CancelledError("crash");
      }
      ExpectNotBelieved(past);
      return absl::OkStatus();
    };
    const absl::Status status =
        plan.rebuilds ? RebuildIndex(test_.store(), index_, {}).status() : Collect().status();
    const bool was_set_back = past.size() > plan.setback_call;
    // To rebuild it is to be told so, where a collection leaves it to the next one.
    const bool gave_up = plan.rebuilds && absl::IsUnavailable(status);
    EXPECT_TRUE(status.ok() || absl::IsCancelled(status) || gave_up) << status;
    index_.before_change = [&]() -> absl::Status {
      past.push_back(index_);
      ExpectNotBelieved(past);
      return absl::OkStatus();
    };
    EXPECT_TRUE(Collect().ok());
    EXPECT_EQ(index_.epoch, *test_.store().ReadEpoch());
    EXPECT_FALSE(index_.locators.contains(gone_));
    EXPECT_FALSE(index_.locators.contains(condemned_));
    past.push_back(index_);
    ExpectNotBelieved(past);
    index_.before_change = nullptr;
    return was_set_back;
  }

  // Whatever the index is set back to: a session that is opened now is not told of the chunk.
  void ExpectNotBelieved(const std::vector<PlainIndex>& past) {
    const std::uint64_t epoch = *test_.store().ReadEpoch();
    const bool is_deleted = !std::filesystem::exists(condemned_path_);
    for (const PlainIndex& state : past) {
      if (state.locators.contains(gone_)) {
        EXPECT_LT(state.epoch, epoch);
      }
      if (is_deleted && state.locators.contains(condemned_)) {
        EXPECT_LT(std::max(state.epoch, state.epochs.at(condemned_)), epoch);
      }
    }
  }

  const TemporaryFolder folder_{TemporaryFolder::Place::kMemory};
  TestStore test_{folder_.path()};
  PlainIndex index_;
  const Digest gone_ = RefOf(Big('z')).digest;
  // Of a pack that the collection deletes.
  const Digest condemned_ = RefOf(Big('y')).digest;
  std::string condemned_path_;
};

// At any moment of a collection the index may become what it was at any earlier one, and the
// collection may die soon after.
TEST_F(SetBackIndexTest, WhatIsGoneIsNeverBelieved) {
  test_.WriteSnapshot({{"a", {Big('a')}}});
  std::size_t setback_count = 0;
  for (const auto& [rebuilds, begins_behind] :
       {std::pair(false, false), std::pair(false, true), std::pair(true, true)}) {
    bool was_set_back = true;
    for (std::size_t call = 1; was_set_back && !HasFailure(); ++call) {
      was_set_back = false;
      for (std::size_t back_to = 0; back_to < call; ++back_to) {
        for (const std::size_t crash_calls : {0, 1, 3}) {
          SCOPED_TRACE(Cat(rebuilds ? "rebuild, " : "", begins_behind ? "behind, " : "",
                           "before call ", call, " back to ", back_to, ", crash after ",
                           crash_calls));
          if (Run({rebuilds, begins_behind, call, back_to, crash_calls})) was_set_back = true;
          ++setback_count;
        }
      }
    }
  }
  EXPECT_GT(setback_count, 50u);
}

TEST_F(SetBackIndexTest, NorAfterTwoSetBacks) {
  constexpr int kRuns = 700;
  constexpr std::size_t kMaxCalls = 16;
  test_.WriteSnapshot({{"a", {Big('a')}}});
  Random random(TestSeed());
  for (int run = 0; run < kRuns && !HasFailure(); ++run) {
    Plan plan;
    plan.rebuilds = random.OneIn(4);
    plan.begins_behind = random.OneIn(2);
    plan.setback_call = random.Between(1, kMaxCalls);
    plan.back_to = random.Below(plan.setback_call);
    plan.second_call = plan.setback_call + random.Between(1, 4);
    plan.second_back_to =
        plan.second_call - random.Between(1, std::min<std::size_t>(plan.second_call, 8));
    if (random.OneIn(3)) plan.crash_calls = random.Between(1, 6);
    SCOPED_TRACE(Cat(plan.rebuilds ? "rebuild, " : "", plan.begins_behind ? "behind, " : "",
                     "before call ", plan.setback_call, " back to ", plan.back_to, ", before call ",
                     plan.second_call, " back to ", plan.second_back_to, ", crash after ",
                     plan.crash_calls));
    Run(plan);
  }
}

}  // namespace
}  // namespace kerf::agent
