// The index in a test's Redis.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {

// How a test's repositories are made: KERF_REDIS_LAYOUT, 1 to 3; else as kerfd does unless told.
inline RedisLayout LayoutOfTest() {
  const char* const text = std::getenv("KERF_REDIS_LAYOUT");
  if (text == nullptr) return RedisLayout::kLazy;
  KERF_CHECK(text[0] >= '1' && text[0] <= '3' && text[1] == '\0');
  return static_cast<RedisLayout>(text[0] - '0');
}
inline bool HasHeads() { return LayoutOfTest() == RedisLayout::kHeads; }

// `redis` outlives it. Dies if there is no Redis.
inline std::unique_ptr<RedisIndex> OpenRedisOn(const TestRedis& redis, int replica_count,
                                               int base_bits = kDefaultBaseBits) {
  RedisIndexOptions options{redis.options_of_kerfd(), replica_count};
  options.base_bits = base_bits;
  options.layout = LayoutOfTest();
  std::vector<std::string> warnings;
  auto leaf = RedisIndex::Open(std::move(options), &warnings);
  KERF_CHECK(leaf.ok());
  return *std::move(leaf);
}

}  // namespace kerf
