// Whether a Redis is safe to keep an index in.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "server/redis/redis_client.h"

namespace kerf {

// Asks all masters and waits for their answers; a cluster that lacks a master or a quorum may be in
// the middle of a failover, so it has `patience` to get over it, then that is Unavailable.
// FailedPrecondition for a master that may evict entries, and for one Redis that has fewer replicas
// than `replica_count`; in a cluster they may come back, so that is a warning. Cancelled soon after
// `is_cancelled` (may be empty) says so. `on_trouble` (may be empty) is told what it waits for:
// within two seconds, and again now and then. `warnings` gets what an operator should know. Not
// from the client's thread.
absl::Status WaitForMasters(RedisClient& client, int replica_count,
                            std::chrono::milliseconds patience,
                            const std::function<bool()>& is_cancelled,
                            const std::function<void(const absl::Status&)>& on_trouble,
                            std::vector<std::string>* warnings);

// Unavailable for a cluster without a majority or with slots that nobody has, and where one of
// `masters` does not answer.
absl::Status CheckQuorum(RedisClient& client, const std::vector<RedisAddress>& masters);

// Of all masters that have said so.
struct RedisMemory {
  std::uint64_t used_bytes = 0;
  // 0: one of them has no maxmemory.
  std::uint64_t max_bytes = 0;
  // Those that have reached their maxmemory: they take no new entries.
  std::vector<RedisAddress> full;
};

// For people, of one in which some are full.
std::string DescribeFull(const RedisMemory& memory);

// FailedPrecondition where one of `masters` may evict entries; Unavailable where it does not
// answer. `memory` is what they say of theirs.
absl::Status CheckEviction(RedisClient& client, const std::vector<RedisAddress>& masters,
                           RedisMemory& memory);

// FailedPrecondition where those of `seeds` that answer soon are not one Redis or one cluster: one
// of the addresses is somebody else's.
absl::Status CheckSeeds(RedisClient& client, const std::vector<RedisAddress>& seeds);

}  // namespace kerf
