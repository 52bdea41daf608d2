// Reading the buckets in which digests are, wherever they lie by now.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "kernels/fingerprint/digest.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"
#include "server/redis/script.h"
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

// Which heads are read beside the buckets, of a repository whose buckets follow heads.
enum class HeadReads {
  // Of one of them: it says which epoch was told last.
  kOne,
  // Of each base bucket.
  kAll,
  // The same, also of a repository that is not known to have any.
  kAllAnyway,
};

// Where buckets are looked for.
enum class PathReads {
  // Where they were found last.
  kKnown,
  // Where a script finds them: what is remembered may be hidden behind another one by now.
  kFound,
};
// Of a call that was told so often that what it has read is not so any more.
inline PathReads PathsOfRound(const RedisRepository& repository, int round) {
  return round < 2 || !repository.has_heads.load() ? PathReads::kKnown : PathReads::kFound;
}

// All of a bucket, but of its entries those behind some digest.
struct WholeBucket {
  BucketContent content;
  // Of content.values[i].
  std::vector<std::string> fields;
};

// The buckets of digests[wanted[i]]. One that is missing altogether is given as an empty one, with
// the head of its base bucket, both as they were at one moment. Client, repository and digests
// outlive it; so for what is below.
Task<absl::StatusOr<std::vector<BucketGroup>>> ReadBuckets(RedisClient& client,
                                                           RedisRepository& repository,
                                                           std::span<const Digest> digests,
                                                           std::vector<std::size_t> wanted,
                                                           HeadReads heads, PathReads paths);

// The heads of base buckets `bases`, in the same order. DataLoss where one cannot be understood.
Task<absl::StatusOr<std::vector<BucketHead>>> ReadHeads(RedisClient& client,
                                                        const RedisRepository& repository,
                                                        std::vector<std::uint32_t> bases);

// A call of the script of a change (kChange): of one bucket, its `e` counted on, and of its head.
ScriptCall ChangeOf(const RedisRepository& repository, std::uint32_t base, std::string_view path,
                    const BucketContent& content, std::span<const FieldChange> changes);

// All that these buckets hold, each at one moment; one that has been split since it was found is
// empty.
Task<RedisReplies> ReadWhole(RedisClient& client, const RedisRepository& repository,
                             std::span<const WalkedBucket> walked);
// Such an answer, without the entries up to `after`.
absl::StatusOr<WholeBucket> WholeOf(const RedisRepository& repository,
                                    const absl::StatusOr<RedisReply>& reply,
                                    const std::optional<Digest>& after);

}  // namespace kerf
