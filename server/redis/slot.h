// Which slot of a Redis Cluster a key lies in (the Redis Cluster specification, "Key distribution
// model").
#pragma once

#include <cstdint>
#include <string_view>

namespace kerf {

inline constexpr std::uint16_t kRedisSlotCount = 16384;

// What decides about the slot: the key, or its hash tag, which is what lies between the first '{'
// and the first '}' behind it, if that is not empty.
std::string_view RedisHashedPartOf(std::string_view key);

// CRC-16/XMODEM of that.
std::uint16_t RedisSlotOf(std::string_view key);

// A number that, between braces, puts a key into that slot.
std::uint32_t RedisNumberIn(std::uint16_t slot);

}  // namespace kerf
