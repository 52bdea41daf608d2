// Agents, collections and repairs in a seeded order, crashed and paused anywhere: docs/adr/0005.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/test_seed.h"
#include "client/store/sim/sim_world.h"

namespace kerf::agent {
namespace {

constexpr int kWorldCount = 8;
constexpr int kStepsPerWorld = 60;
// Of every other world.
constexpr unsigned kParityPercent = 10;

SimWorld::Past NothingYet(int number, bool agents_go_by_place) {
  SimWorld::Past nothing;
  nothing.agents_go_by_place = agents_go_by_place;
  if (number % 2 == 1) nothing.parity_percent = kParityPercent;
  return nothing;
}

void RunWorlds(bool agents_go_by_place) {
  Random seeds(TestSeed());
  int confirmed_count = 0;
  int repaired_count = 0;
  int refused_count = 0;
  int crashed_collection_count = 0;
  int rebuild_count = 0;
  int check_count = 0;
  int short_collection_count = 0;
  int refused_write_count = 0;
  int mended_pack_count = 0;
  int undeleted_count = 0;
  int refused_undelete_count = 0;
  int kept_pin_count = 0;
  int mended_with_parity_count = 0;
  int refused_parity_count = 0;
  int misplaced_count = 0;
  int condemned_place_count = 0;
  int collection_in_check_count = 0;
  std::uint64_t merged_pack_count = 0;
  for (int number = 0; number < kWorldCount; ++number) {
    SimWorld world(seeds.Next(), NothingYet(number, agents_go_by_place));
    world.may_fill_disk = true;
    const absl::Status status = world.Run(kStepsPerWorld);
    ASSERT_TRUE(status.ok()) << "world " << number << ": " << status;
    const absl::Status mended = world.CheckDamageIsFoundAndMended();
    ASSERT_TRUE(mended.ok()) << "world " << number << ": " << mended;
    confirmed_count += world.confirmed_count;
    mended_pack_count += world.mended_pack_count;
    undeleted_count += world.undeleted_count;
    refused_undelete_count += world.refused_undelete_count;
    kept_pin_count += world.kept_pin_count;
    mended_with_parity_count += world.mended_with_parity_count;
    refused_parity_count += world.refused_parity_count;
    repaired_count += world.repaired_count;
    refused_count += world.refused_count;
    crashed_collection_count += world.crashed_collection_count;
    rebuild_count += world.rebuild_count;
    check_count += world.check_count;
    short_collection_count += world.short_collection_count;
    refused_write_count += world.refused_write_count;
    merged_pack_count += world.merged_pack_count;
    misplaced_count += world.misplaced_count;
    condemned_place_count += world.condemned_place_count;
    collection_in_check_count += world.collection_in_check_count;
  }
  std::printf(
      "%d snapshots checked, %d repaired, %d commits refused, %d collections crashed, %d went "
      "on with the room that they made, %d writes refused, %zu packs merged, %d rebuilds, %d "
      "checks of the index; %d packs mended, %d of them with parity, %d writes of parity refused, "
      "%d snapshots brought back and %d not, %d pins kept; %d chunks not where the index said, %d "
      "where a collection deleted, %d collections beside checks\n",
      confirmed_count, repaired_count, refused_count, crashed_collection_count,
      short_collection_count, refused_write_count, static_cast<std::size_t>(merged_pack_count),
      rebuild_count, check_count, mended_pack_count, mended_with_parity_count, refused_parity_count,
      undeleted_count, refused_undelete_count, kept_pin_count, misplaced_count,
      condemned_place_count, collection_in_check_count);
  // The seeds have led somewhere.
  EXPECT_GT(confirmed_count, 0);
  EXPECT_GT(mended_pack_count, 0);
  EXPECT_GT(mended_with_parity_count, 0);
  EXPECT_GT(undeleted_count, 0);
  EXPECT_GT(kept_pin_count, 0);
  EXPECT_GT(merged_pack_count, 0u);
  EXPECT_GT(short_collection_count + refused_write_count, 0);
  // More than the one of each world that has come to its end.
  EXPECT_GT(rebuild_count, 2 * kWorldCount);
  EXPECT_GT(std::min(check_count, collection_in_check_count), 0);
  EXPECT_EQ(misplaced_count > 0, agents_go_by_place);
}

TEST(CollectionSimTest, NoCheckedSnapshotLosesAChunk) { RunWorlds(false); }

TEST(CollectionSimTest, NorDoesOneOfAgentsThatGoByPlace) { RunWorlds(true); }

}  // namespace
}  // namespace kerf::agent
