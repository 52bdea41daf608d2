// Looking at the heads of all base buckets (docs/adr/0022): as many as there are base buckets,
// whatever is below them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"
#include "server/redis/repository_state.h"
#include "server/redis/script.h"
#include "server/redis/walk.h"

namespace kerf {

// A base bucket as a look sees it, in one step.
struct LookedAtBase {
  std::uint32_t base = 0;
  BucketHead head;
  // Whether there is a bucket on the path that was looked at; else the shortest one that may be
  // made there. Below a head it is lost.
  bool has_bucket = false;
  std::string missing_path;
  // All that is there, where there is no head: of a repository of before, or its head is lost.
  std::vector<WalkedBucket> headless;
  // That counts for what calls answer.
  std::uint64_t epoch = 0;
  std::uint64_t removed_count = 0;
  std::uint64_t entry_count = 0;
  // Its head, if there is one, knows how many entries are below it.
  bool is_counted = true;
  // It is there, or should be, or somebody may be about to make it.
  bool is_begun = true;
};

// A path below each base bucket, as long as any, that nobody else can know.
std::string AnyPath();

// All base buckets, each with `path` below it, as so many replicas have them. Where there is no
// head and there are buckets, they are walked: what counts is what walk.h says of them. Client,
// repository and state outlive it.
Task<absl::StatusOr<std::vector<LookedAtBase>>> LookAtHeads(RedisClient& client,
                                                            const RedisRepository& repository,
                                                            const RepositoryState& state,
                                                            std::string path, int replica_count);
WalkedTotals TotalsOf(const std::vector<LookedAtBase>& bases);

// A call of kFollow: `below` is all that a walk has seen below one base bucket; its head gets that
// `e`, and what is missing is made. Where there was no head each bucket follows it from the epoch
// that it has; where there was one buckets stay as they are. `removed` is what the head says of
// removals since its epoch; empty: as before.
ScriptCall FollowCallOf(const RedisRepository& repository, std::span<const WalkedBucket> below,
                        std::string head, std::string removed = "");

// By LookAtHeads where the repository has heads, else by a walk.
Task<absl::StatusOr<WalkedTotals>> TotalsNow(RedisClient& client, const RedisRepository& repository,
                                             const RepositoryState& state, int replica_count);

}  // namespace kerf
