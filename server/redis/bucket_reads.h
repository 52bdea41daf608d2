// Reading the buckets in which digests are, wherever they lie by now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "kernels/fingerprint/digest.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"
#include "server/redis/send_all.h"
#include "server/redis/walk.h"

namespace kerf {

// How often a call reads again because others write to the same bucket.
inline constexpr int kMaxConflicts = 100;

// What a call wants of one bucket.
struct BucketGroup {
  std::uint32_t base = 0;
  std::string path;
  // Into the call's digests.
  std::vector<std::size_t> at;
  BucketContent content;
};

// All of a bucket, but of its entries those behind some digest.
struct WholeBucket {
  BucketContent content;
  // Of content.values[i].
  std::vector<std::string> fields;
};

// The buckets of digests[wanted[i]]. One that is missing altogether is given as an empty one.
// Client, repository and digests outlive it; so for what is below.
Task<absl::StatusOr<std::vector<BucketGroup>>> ReadBuckets(RedisClient& client,
                                                           RedisRepository& repository,
                                                           std::span<const Digest> digests,
                                                           std::vector<std::size_t> wanted);

// All that these buckets hold, each at one moment; one that has been split since it was found is
// empty.
Task<RedisReplies> ReadWhole(RedisClient& client, const RedisRepository& repository,
                             std::span<const WalkedBucket> walked);
// Such an answer, without the entries up to `after`.
absl::StatusOr<WholeBucket> WholeOf(const RedisRepository& repository,
                                    const absl::StatusOr<RedisReply>& reply,
                                    const std::optional<Digest>& after);

}  // namespace kerf
