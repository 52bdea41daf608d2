// Looks at a Redis that has an index, for as long as kerfd runs: whether it can be reached as calls
// reach it, whether it still is the index, and whether it keeps what it is told.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "server/redis/identity.h"
#include "server/redis/master_checks.h"
#include "server/redis/reachability.h"
#include "server/redis/redis_client.h"

namespace kerf {

struct RedisWatchOptions {
  // Replicas that must have the index's name before it is used.
  int replica_count = 0;
  // Between two looks.
  std::chrono::milliseconds interval{1'000};
  // Between two looks at what changes seldom (maxmemory-policy); a new connection is one more
  // reason for one.
  std::chrono::milliseconds rare_interval{10'000};
  redis::ReachabilityTimes times;
  // Another index is in the place of the one that was known: what is remembered of it is worth
  // nothing. Called from the watch's thread.
  std::function<void()> on_replaced = nullptr;
};

// A look is one command to each master, as long as large batches are, and its answer, as long; so
// that a path which loses long packets alone counts as one that is cut. Thread-safe.
class RedisWatch {
 public:
  // `client` outlives it.
  RedisWatch(RedisClient* client, RedisWatchOptions options);
  RedisWatch(const RedisWatch&) = delete;
  RedisWatch& operator=(const RedisWatch&) = delete;
  // Waits for what is under way: the client is closed, or answers.
  ~RedisWatch();

  // The first look, in the caller's thread, and then one after the other in another one.
  void Begin();
  // No look begins any more. Does not wait.
  void Stop();

  // Not OK: why calls are refused: what is there is not the index, or may throw it away.
  absl::Status fitness() const;
  // Not OK: that, or why Redis cannot be reached, and has not been for some seconds.
  absl::Status health() const;
  // Of the index; empty: not known yet.
  std::string identity() const;
  // As of the last look at what changes seldom.
  RedisMemory memory() const;

 private:
  void Run();
  void LookOnce();
  // Asks all masters.
  absl::Status Reach(std::vector<RedisAddress>& masters);
  // What is named so in Redis, which may have had no name until now.
  absl::Status CheckIdentity();
  absl::Status Name();
  void Adopt(const redis::IndexIdentity& seen);
  void TakeMemory(const RedisMemory& memory);
  void Report(const absl::Status& reached, const absl::Status& fit, bool is_lost);

  RedisClient& client_;
  const RedisWatchOptions options_;

  // The looking thread's own.
  redis::Reachability reachability_;
  redis::IndexIdentity known_;
  std::vector<RedisAddress> masters_;
  std::uint64_t connect_count_ = 0;
  std::chrono::steady_clock::time_point next_rare_look_;
  absl::Status rare_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool is_stopping_ = false;
  absl::Status reached_;
  absl::Status fitness_;
  std::string identity_;
  RedisMemory memory_;
  std::thread thread_;
};

}  // namespace kerf
