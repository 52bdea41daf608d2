#include "server/front/message_memory.h"

#include <gtest/gtest.h>

namespace kerf {
namespace {

TEST(MessageMemoryTest, AShareIsNobodyElses) {
  MessageMemory memory(/*share_bytes=*/100, /*pool_bytes=*/1000);
  HeldMessages greedy(&memory, /*has_share=*/true);
  EXPECT_TRUE(greedy.Set(1100));
  EXPECT_TRUE(greedy.is_beyond_share());
  HeldMessages modest(&memory, /*has_share=*/true);
  EXPECT_TRUE(modest.Set(100));
  EXPECT_FALSE(modest.is_beyond_share());
  EXPECT_EQ(memory.used_bytes(), 1200u);
  // It is there, and counted, whether there is room or not.
  EXPECT_FALSE(modest.Set(101));
  EXPECT_EQ(memory.used_bytes(), 1201u);
  EXPECT_TRUE(greedy.Set(0));
  EXPECT_TRUE(modest.Set(101));
  EXPECT_EQ(memory.used_bytes(), 101u);
  EXPECT_EQ(memory.peak_bytes(), 1201u);
}

TEST(MessageMemoryTest, WithoutAShareAllIsOfThePool) {
  MessageMemory memory(/*share_bytes=*/100, /*pool_bytes=*/1000);
  HeldMessages call(&memory, /*has_share=*/false);
  EXPECT_TRUE(call.Set(1));
  EXPECT_TRUE(call.is_beyond_share());
  EXPECT_FALSE(call.Set(1001));
}

TEST(MessageMemoryTest, ReadsAheadInHalfThePool) {
  MessageMemory memory(/*share_bytes=*/100, /*pool_bytes=*/1000);
  HeldMessages call(&memory, /*has_share=*/true);
  EXPECT_EQ(call.AheadBytes(7), 100u);
  EXPECT_EQ(call.AheadBytes(700), 700u);
  EXPECT_TRUE(call.Set(60));
  HeldMessages other(&memory, /*has_share=*/true);
  EXPECT_TRUE(other.Set(541));
  // Together with the other's 441 more than half.
  EXPECT_FALSE(call.TryKeepAhead(100));
  EXPECT_TRUE(other.Set(540));
  EXPECT_TRUE(call.TryKeepAhead(100));
  HeldMessages third(&memory, /*has_share=*/true);
  EXPECT_TRUE(third.Set(1));
  EXPECT_FALSE(third.TryKeepAhead(100));
  // Kept until the message has come, and then for it.
  EXPECT_TRUE(call.Set(60, 100));
  EXPECT_FALSE(third.TryKeepAhead(100));
  EXPECT_TRUE(call.Set(160));
  EXPECT_EQ(memory.used_bytes(), 701u);
  EXPECT_TRUE(call.Set(100));
  EXPECT_TRUE(third.TryKeepAhead(100));
}

}  // namespace
}  // namespace kerf
