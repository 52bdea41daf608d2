// The repositories that lie in Redis.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/task.h"
#include "server/index/index.h"
#include "server/net/clock.h"
#include "server/redis/buckets.h"
#include "server/redis/known_paths.h"
#include "server/redis/listed_repositories.h"
#include "server/redis/redis_client.h"
#include "server/redis/repository_state.h"

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
  // As it was found, or made; kNone: nobody has looked.
  RedisLayout layout = RedisLayout::kNone;
  // Buckets that follow heads have been seen, or are to be expected: heads are read with them.
  std::atomic<bool> has_heads{false};
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
  return {BucketKey(tag, base, path), LongestPathKey(tag, base), HeadKey(tag, base)};
}

// The same for kChange of a bucket: one that is there and follows no head has none, unless one
// comes back, and a key that is not there would keep Redis from running the script while the slot
// moves. Whoever gives it a head that is new changes its `e`.
inline std::vector<std::string> KeysToChange(std::string_view tag, std::uint32_t base,
                                             std::string_view path, bool has_head) {
  std::vector<std::string> keys = KeysOf(tag, base, path);
  if (!has_head) keys.pop_back();
  return keys;
}

// Of the buckets of a repository that is made.
struct FirstBuckets {
  int base_bits = 0;
  // How far a bucket of the shortest path is split at first.
  int path_bits = 0;
  // kWhole: also of those of kLazy that are found, which are turned into such.
  RedisLayout layout = RedisLayout::kLazy;
};

// Finds repositories, makes them, and remembers those that it has found. Thread-safe.
class RedisRepositories {
 public:
  // So many are remembered, those that were asked for last, and all that calls are using. A
  // repository of few entries takes some 400 bytes, one of many a byte for each 32 of them at most
  // (known_paths.h).
  static constexpr std::size_t kMaxKept = 1024;

  // `client` outlives its calls. Replicas that must have a repository that is made.
  RedisRepositories(
      RedisClient* client, int replica_count, FirstBuckets first,
      Clock clock = [] { return std::chrono::steady_clock::now(); })
      : client_(client), replica_count_(replica_count), first_(first), clock_(std::move(clock)) {}

  // Null if there is none and it is not to be made. FailedPrecondition: a later kerfd has made it,
  // or its place is taken.
  Task<absl::StatusOr<RedisRepositoryPtr>> Load(const RepositoryId& id, bool create);

  // As it is named in Redis, or would be; not one that is kept. FailedPrecondition as of Load.
  Task<absl::StatusOr<RedisRepositoryPtr>> Peek(const RepositoryId& id);
  int first_base_bits() const { return first_.base_bits; }
  // As those of Index. Of the pages of one list the first one alone asks Redis for all of it, and
  // those that come late.
  Task<absl::StatusOr<bool>> Create(const RepositoryId& id);
  Task<absl::StatusOr<bool>> IsCreated(const RepositoryId& id);
  Task<absl::StatusOr<bool>> IsThere(const RepositoryId& id);
  Task<absl::StatusOr<std::vector<ListedRepository>>> List(const std::optional<RepositoryId>& after,
                                                           std::size_t limit);
  // From now on it is not there, for all who look; its buckets are still to be removed. Whoever
  // makes it again meanwhile, or writes to it, has a new one.
  Task<absl::Status> Unmake(const RepositoryId& id);
  // Takes it from the list of all unless it has been made again.
  Task<absl::Status> Delist(const RepositoryId& id);

  // What was found is read anew when it is next asked for.
  void ForgetAll() {
    listed_.Forget();
    const std::lock_guard lock(mutex_);
    by_tag_.clear();
    kept_.clear();
  }
  std::size_t kept_count() const {
    const std::lock_guard lock(mutex_);
    return kept_.size();
  }

  // What Redis says of it now, and so many replicas with it.
  Task<absl::StatusOr<RepositoryState>> Read(const RedisRepository& repository, int replica_count);
  // The same; what says that it is there is written again if it is missing.
  Task<absl::StatusOr<RepositoryState>> ReadOrWrite(const RedisRepository& repository);

  // Again what says that it is there.
  Task<absl::Status> Write(const RedisRepository& repository);
  // The same if it was found wanting.
  Task<absl::Status> WriteIfNeeded(RedisRepository& repository);
  // Writes down, with the replicas, that these base buckets are about to be made; false if an epoch
  // was told since `state` was read. A Redis that is full refuses it.
  Task<absl::StatusOr<bool>> Begin(const RedisRepository& repository, const RepositoryState& state,
                                   const std::vector<std::uint32_t>& bases);
  // Changes it (repository_state.h), with the replicas, unless it is not what was read any more:
  // false. A Redis that is full takes what is to be `taken_when_full`.
  Task<absl::StatusOr<bool>> Change(const RedisRepository& repository,
                                    std::vector<std::string> changes, bool taken_when_full);

 private:
  // The script says whether it was done.
  Task<absl::StatusOr<bool>> RunOn(const RedisRepository& repository, std::string_view script,
                                   std::vector<std::string> arguments);
  RedisRepositoryPtr Find(const std::string& tag);
  RedisRepositoryPtr Keep(RedisRepositoryPtr repository);
  // Of one that has all of its base buckets from the start.
  Task<absl::Status> MakeWhole(const RedisRepository& repository, std::uint64_t epoch);
  // False if somebody else has made it meanwhile, perhaps otherwise.
  Task<absl::StatusOr<bool>> Make(const RedisRepository& repository);
  // From a repository of the later layout.
  Task<absl::Status> TurnIntoWhole(const RedisRepository& repository);
  std::vector<std::string> FieldsOf(const RedisRepository& repository) const;
  // Adds it to the list of all.
  Task<absl::Status> Enlist(const RepositoryId& id);
  // All that stand in the list behind `after`, in any order.
  Task<absl::StatusOr<std::vector<RepositoryId>>> ReadList(
      const std::optional<RepositoryId>& after);
  // Nobody waits for it: the list lies in one slot, and those of others need not be well for a
  // commit.
  Detached EnlistLater(RepositoryId id);
  Task<absl::Status> Run(std::string_view script, std::string key, std::string argument,
                         std::string_view doing);

  RedisClient* const client_;
  const int replica_count_;
  const FirstBuckets first_;
  const Clock clock_;
  ListedRepositories listed_;
  mutable std::mutex mutex_;
  // What was asked for last comes first.
  std::list<RedisRepositoryPtr> kept_;
  absl::flat_hash_map<std::string, std::list<RedisRepositoryPtr>::iterator> by_tag_;
};

}  // namespace kerf
