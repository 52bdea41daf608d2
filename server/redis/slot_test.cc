#include "server/redis/slot.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace kerf {
namespace {

// Of the specification: its check value, and examples of hash tags.
TEST(RedisSlot, IsThatOfTheSpecification) {
  EXPECT_EQ(RedisSlotOf("123456789"), 0x31C3);
  EXPECT_EQ(RedisSlotOf("{user1000}.following"), RedisSlotOf("{user1000}.followers"));
  EXPECT_EQ(RedisSlotOf("{user1000}.following"), RedisSlotOf("user1000"));
  EXPECT_NE(RedisSlotOf("foo{}{bar}"), RedisSlotOf("bar"));
  EXPECT_EQ(RedisSlotOf("foo{{bar}}zap"), RedisSlotOf("{bar"));
  EXPECT_EQ(RedisSlotOf("foo{bar}{zap}"), RedisSlotOf("bar"));
  EXPECT_EQ(RedisSlotOf("foo{bar"), RedisSlotOf("foo{bar"));
  EXPECT_EQ(RedisSlotOf(""), 0);
}

TEST(RedisSlot, EachHasANumberInIt) {
  for (int slot = 0; slot < kRedisSlotCount; ++slot) {
    const std::uint32_t number = RedisNumberIn(static_cast<std::uint16_t>(slot));
    ASSERT_EQ(RedisSlotOf("kerf.wait:{" + std::to_string(number) + "}"), slot);
  }
}

}  // namespace
}  // namespace kerf
