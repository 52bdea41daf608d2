// Whether who answers at an address is the index: addresses outlive what was there.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "server/redis/address.h"
#include "server/redis/redis_client.h"
#include "server/redis/topology.h"

namespace kerf::redis {

// The methods of `topology`'s thread but for Expect, which is anybody's.
class Strangers {
 public:
  // `topology` outlives it.
  explicit Strangers(const Topology* topology) : topology_(*topology) {}

  // Of a single Redis: as RedisClient::ExpectIdentity.
  void Expect(std::vector<std::string> known) {
    const std::lock_guard lock(mutex_);
    known_ = std::move(known);
  }

  // What to ask in front of everything on a new connection, for Judge; none before there is a map.
  std::vector<std::string> Question() const;
  // Why it is a stranger who answers so; empty: it is none, or nobody can tell. Also tells the log.
  std::string Judge(const RedisAddress& address, const RedisReply& reply);
  // Says so of an answer to CLUSTER SLOTS.
  std::string JudgeMap(const RedisAddress& address, const RedisReply& reply);

 private:
  std::string Warn(const RedisAddress& address, const std::string& stranger);

  const Topology& topology_;
  // What was said last, which is said once.
  std::string last_warning_;

  std::mutex mutex_;
  std::vector<std::string> known_;
};

}  // namespace kerf::redis
