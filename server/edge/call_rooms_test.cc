#include "server/edge/call_rooms.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_seed.h"

namespace kerf {
namespace {

using Entry = CallRooms::Entry;

constexpr std::size_t kMiB = 1 << 20;
constexpr std::size_t kShort = CallRooms::kMinCallBytes;

// So many calls of `bytes` bytes of that repository go in.
std::size_t Fill(CallRooms& rooms, const std::string& share, std::size_t bytes) {
  std::size_t count = 0;
  while (rooms.Enter(share, bytes) == Entry::kEntered) ++count;
  return count;
}

TEST(CallRoomsTest, OneRepositoryLeavesRoomForOthers) {
  CallRooms rooms(32 * kMiB);
  EXPECT_EQ(Fill(rooms, "cut-off", 4 * kMiB), 2u);
  EXPECT_EQ(rooms.Enter("cut-off", 4 * kMiB), Entry::kShareIsFull);
  EXPECT_EQ(Fill(rooms, "well", 4 * kMiB), 2u);
  EXPECT_EQ(rooms.Enter("third", 4 * kMiB), Entry::kRoomIsFull);
  // Short ones have a room of their own.
  EXPECT_EQ(Fill(rooms, "cut-off", kShort), 48u);
  EXPECT_EQ(Fill(rooms, "third", kShort), 16u);
  EXPECT_EQ(rooms.Enter("third", kShort), Entry::kRoomIsFull);
}

TEST(CallRoomsTest, ALargeCallIsNotPassedBySmallerOnesOfItsRepositoryForEver) {
  CallRooms rooms(32 * kMiB);
  for (int call = 0; call < 6; ++call) ASSERT_EQ(rooms.Enter("a", kMiB), Entry::kEntered);
  {
    CallRooms::Round round(&rooms);
    EXPECT_FALSE(round.Enter("a", 4 * kMiB));
    EXPECT_FALSE(round.Enter("a", kMiB));
    // Short ones, and those of others, keep nobody waiting there.
    EXPECT_TRUE(round.Enter("a", kShort));
    EXPECT_TRUE(round.Enter("b", kMiB));
    EXPECT_FALSE(round.is_over());
  }
  for (int call = 0; call < 2; ++call) rooms.Leave("a", kMiB, false);
  CallRooms::Round round(&rooms);
  EXPECT_TRUE(round.Enter("a", 4 * kMiB));
  EXPECT_FALSE(round.Enter("a", kMiB));
}

TEST(CallRoomsTest, NobodyPassesWhoWaitsForARoomThatIsFull) {
  CallRooms rooms(32 * kMiB);
  for (const char* share : {"a", "b"}) ASSERT_EQ(Fill(rooms, share, 3 * kMiB), 2u);
  ASSERT_EQ(rooms.Enter("c", 2 * kMiB), Entry::kEntered);
  CallRooms::Round round(&rooms);
  EXPECT_FALSE(round.Enter("d", 4 * kMiB));
  EXPECT_FALSE(round.Enter("e", kMiB));
  EXPECT_TRUE(round.Enter("e", kShort));
  EXPECT_FALSE(round.is_over());
  ASSERT_EQ(Fill(rooms, "f", kShort), 48u);
  ASSERT_EQ(Fill(rooms, "g", kShort), 15u);
  EXPECT_FALSE(round.Enter("h", kShort));
  EXPECT_TRUE(round.is_over());
}

TEST(CallRoomsTest, WhatWaitsForLongMakesRoomAndCountsForItsRepository) {
  CallRooms rooms(12 * kMiB);
  for (int call = 0; call < 2; ++call) ASSERT_EQ(rooms.Enter("a", 4 * kMiB), Entry::kEntered);
  for (int call = 0; call < 2; ++call) ASSERT_EQ(rooms.Enter("b", 4 * kMiB), Entry::kEntered);
  EXPECT_EQ(rooms.Enter("well", 4 * kMiB), Entry::kRoomIsFull);
  EXPECT_TRUE(rooms.TurnSlow(4 * kMiB));
  EXPECT_EQ(rooms.Enter("a", 4 * kMiB), Entry::kShareIsFull);
  EXPECT_EQ(rooms.Enter("well", 4 * kMiB), Entry::kEntered);
  EXPECT_TRUE(rooms.TurnSlow(4 * kMiB));
  EXPECT_TRUE(rooms.TurnSlow(4 * kMiB));
  // That room is full, too.
  EXPECT_FALSE(rooms.TurnSlow(4 * kMiB));
  rooms.Leave("a", 4 * kMiB, true);
  EXPECT_EQ(rooms.Enter("a", 4 * kMiB), Entry::kEntered);
  EXPECT_TRUE(rooms.TurnSlow(4 * kMiB));
}

TEST(CallRoomsTest, WhatIsLargerThanItsRoomHasItForItself) {
  CallRooms rooms(32 * kMiB);
  EXPECT_EQ(rooms.Enter("a", 20 * kMiB), Entry::kEntered);
  EXPECT_EQ(rooms.Enter("a", 20 * kMiB), Entry::kShareIsFull);
  EXPECT_EQ(rooms.Enter("b", kMiB), Entry::kRoomIsFull);
  EXPECT_TRUE(rooms.TurnSlow(20 * kMiB));
  EXPECT_EQ(rooms.Enter("b", kMiB), Entry::kEntered);
}

// Whatever comes and goes, when all has gone there is as much room as at first.
TEST(CallRoomsTest, NothingIsLost) {
  struct Call {
    std::string share;
    std::size_t bytes;
    bool is_slow = false;
  };
  CallRooms rooms(32 * kMiB);
  Random random(TestSeed());
  std::vector<Call> calls;
  for (int step = 0; step < 10'000; ++step) {
    if (random.OneIn(2)) {
      Call call{std::string(1, static_cast<char>('a' + random.Below(5))),
                random.Between(kShort, 4 * kMiB)};
      if (rooms.Enter(call.share, call.bytes) == Entry::kEntered) calls.push_back(call);
    } else if (!calls.empty()) {
      Call& call = calls[random.Below(calls.size())];
      if (!call.is_slow && random.OneIn(2)) {
        call.is_slow = rooms.TurnSlow(call.bytes);
        continue;
      }
      rooms.Leave(call.share, call.bytes, call.is_slow);
      std::swap(call, calls.back());
      calls.pop_back();
    }
  }
  for (const Call& call : calls) rooms.Leave(call.share, call.bytes, call.is_slow);
  EXPECT_EQ(Fill(rooms, "a", 4 * kMiB), 2u);
  EXPECT_EQ(Fill(rooms, "b", 4 * kMiB), 2u);
  for (int call = 0; call < 4; ++call) EXPECT_TRUE(rooms.TurnSlow(4 * kMiB));
  EXPECT_EQ(Fill(rooms, "c", 4 * kMiB), 2u);
  EXPECT_EQ(Fill(rooms, "d", 4 * kMiB), 2u);
  for (int call = 0; call < 4; ++call) EXPECT_TRUE(rooms.TurnSlow(4 * kMiB));
  EXPECT_EQ(Fill(rooms, "e", 4 * kMiB), 2u);
  EXPECT_FALSE(rooms.TurnSlow(4 * kMiB));
}

}  // namespace
}  // namespace kerf
