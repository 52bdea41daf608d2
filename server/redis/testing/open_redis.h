// The index in a test's Redis.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "server/redis/redis_index.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {

// `redis` outlives it. Dies if there is no Redis.
inline std::unique_ptr<RedisIndex> OpenRedisOn(const TestRedis& redis, int replica_count,
                                               int base_bits = kDefaultBaseBits) {
  RedisIndexOptions options{redis.options_of_kerfd(), replica_count};
  options.base_bits = base_bits;
  std::vector<std::string> warnings;
  auto leaf = RedisIndex::Open(std::move(options), &warnings);
  KERF_CHECK(leaf.ok());
  return *std::move(leaf);
}

}  // namespace kerf
