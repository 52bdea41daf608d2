// Makes trouble for a test's Redis: masters are killed and started again, paused, failed over,
// replaced by replicas that have missed something, and slots are moved.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "server/redis/testing/test_redis.h"

namespace kerf {

// One thing at a time, and one at least: the next begins when all nodes are well. Fails the test if
// they do not become so. The test's own thread or one of its own makes it, not both at once; nobody
// else uses `redis`' verbs meanwhile.
class Trouble {
 public:
  // A key whose slot may be moved.
  using AnyKey = std::function<std::string(Random& random)>;

  // A node of `redis`, which outlives it, is taken for dead after `node_timeout`.
  Trouble(TestRedis* redis, TestRedis::Kind kind, std::chrono::milliseconds node_timeout,
          AnyKey any_key, std::uint64_t seed);
  // Ends as End does.
  ~Trouble();

  // For so long; all nodes are well then.
  void MakeFor(std::chrono::seconds time);

  // In a thread of its own, from now until End, which returns when all nodes are well.
  void Begin();
  void End();

  int count() const { return count_.load(); }
  // How often a slot has begun to move, and has moved: odd while one moves.
  std::uint64_t moves() const { return moves_.load(); }

 private:
  struct Master {
    std::string node;
    // Of the replica; empty if there is none.
    std::string replica;
  };

  void MakeUntilEnd();
  void MakeOne(const std::vector<Master>& masters);
  void Replace(const Master& master);
  void FailOver(const Master& master);
  // The node itself, if it is one; empty if it has none.
  std::string MasterOf(const std::string& number);
  void Move(const std::string& to);
  void MoveSlot(const std::string& slot, std::string to);
  // None if the nodes do not become well.
  std::vector<Master> WaitUntilWhole();
  // Up to `most` timeouts, or until it is to end.
  void Pause(int most);

  TestRedis& redis_;
  const bool is_cluster_;
  const std::chrono::milliseconds node_timeout_;
  const AnyKey any_key_;
  Random random_;
  std::atomic<int> count_{0};
  std::atomic<std::uint64_t> moves_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace kerf
