// What can be set of Redis.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/cli/option_set.h"
#include "server/redis/address.h"

namespace kerf {

struct RedisSettings {
  // Nodes of a Redis Cluster, or one Redis. Empty: none is used.
  std::vector<RedisAddress> seeds;
  std::string user;
  // Empty: no password.
  std::string password_file;
  // CAs of the nodes' certificates; empty: Redis is spoken to in the clear.
  std::string tls_ca;
  // Of which these have to be; empty: of the host by which a seed or the cluster calls each.
  std::string tls_name;
  std::uint32_t replica_count = 1;
  // Of each repository.
  std::uint64_t expected_chunk_count = 0;
  // Of each that is made (RedisLayout).
  std::uint32_t layout = 2;
};

void AddRedisSettings(OptionSet& options, RedisSettings& settings);

}  // namespace kerf
