// The repositories that lie in Redis.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/task.h"
#include "server/index/index.h"
#include "server/redis/buckets.h"
#include "server/redis/known_paths.h"
#include "server/redis/redis_client.h"

namespace kerf {

// A repository as this process knows it.
struct RedisRepository {
  RedisRepository(RepositoryId repository, int bits)
      : id(std::move(repository)), tag(RedisTagOf(id)), base_bits(bits), paths(bits) {}

  std::uint32_t base_count() const { return std::uint32_t{1} << base_bits; }

  const RepositoryId id;
  const std::string tag;
  const int base_bits;
  KnownPaths paths;
  // What says that it is there may be missing, as a bucket was, or not be with the replicas, as
  // somebody else wrote it. Whoever changes something writes it again (Write) until it was written
  // after it was last found wanting.
  std::atomic<std::uint64_t> writes_wanted{0};
  std::atomic<std::uint64_t> writes_done{0};
};
using RedisRepositoryPtr = std::shared_ptr<RedisRepository>;

// Of a bucket, as the scripts want them.
inline std::vector<std::string> KeysOf(std::string_view tag, std::uint32_t base,
                                       std::string_view path) {
  return {BucketKey(tag, base, path), LongestPathKey(tag, base)};
}

// Of the buckets of a repository that is made.
struct FirstBuckets {
  int base_bits = 0;
  int path_bits = 0;
};

// Finds repositories, makes them, and remembers those that it has found. Thread-safe.
class RedisRepositories {
 public:
  // `client` outlives its calls. Replicas that must have a repository that is made.
  RedisRepositories(RedisClient* client, int replica_count, FirstBuckets first)
      : client_(client), replica_count_(replica_count), first_(first) {}

  // Null if there is none and it is not to be made. FailedPrecondition: a later kerfd has made it,
  // or its place is taken.
  Task<absl::StatusOr<RedisRepositoryPtr>> Load(const RepositoryId& id, bool create);

  // What was found is read anew when it is next asked for.
  void ForgetAll() {
    const std::lock_guard lock(mutex_);
    by_tag_.clear();
  }

  // Again what says that it is there.
  Task<absl::Status> Write(const RedisRepository& repository);

 private:
  Task<absl::Status> Make(const RedisRepository& repository);

  RedisClient* const client_;
  const int replica_count_;
  const FirstBuckets first_;
  std::mutex mutex_;
  std::map<std::string, RedisRepositoryPtr> by_tag_;
};

}  // namespace kerf
