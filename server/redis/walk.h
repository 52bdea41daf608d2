// Looking at all buckets of a repository in Redis, some at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/task.h"
#include "server/index/codec.h"
#include "server/redis/buckets.h"
#include "server/redis/redis_client.h"
#include "server/redis/repositories.h"
#include "server/redis/repository_state.h"

namespace kerf {

// A bucket as a walk sees it.
struct WalkedBucket {
  std::uint32_t base = 0;
  std::string path;
  // Empty: there is no such bucket, and none on its path.
  std::string epoch_value;
  // That counts for what calls answer.
  std::uint64_t epoch = 0;
  std::uint64_t removed_count = 0;
  std::uint64_t entry_count = 0;
  // It is there, or should be, or somebody may be about to make it.
  bool is_begun = true;
  // No session of an earlier one commits to it.
  std::uint64_t fence = 0;
  // As it stands there.
  index_codec::EpochValue own = {};
  // Of its base bucket, seen in the same step; how many entries that says are below it (nothing:
  // nobody knows), and have been removed since its epoch was told.
  BucketHead head = {};
  std::optional<std::uint64_t> head_entry_count = 0;
  std::uint64_t head_removed_count = 0;

  // As that of BucketContent: it answers its own epoch, whatever its head is told.
  bool is_apart() const {
    return !epoch_value.empty() && head.is_there() && !index_codec::IsFollowing(epoch_value);
  }
};

// All buckets together.
struct WalkedTotals {
  std::uint64_t lowest_epoch = std::numeric_limits<std::uint64_t>::max();
  // Of those that are begun, and that an epoch is told to.
  std::uint64_t lowest_begun_epoch = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t highest_epoch = 0;
  std::uint64_t removed_count = 0;
  std::uint64_t entry_count = 0;
  // Base buckets of which any bucket is there.
  BaseSet there;
  bool has_heads = false;
};

// Which base buckets to look at next, so that a step meets neither few buckets nor very many: there
// may be thousands below each.
class WalkSteps {
 public:
  WalkSteps(std::uint32_t first, std::uint32_t end) : begin_(first), step_end_(first), end_(end) {}

  // Goes to the next step; false behind the last.
  bool Next() {
    begin_ = step_end_;
    step_end_ = std::min(end_, begin_ + width_);
    return begin_ < end_;
  }
  // The step is from base bucket begin() to before end().
  std::uint32_t begin() const { return begin_; }
  std::uint32_t end() const { return step_end_; }

  // So many buckets were there.
  void Saw(std::size_t bucket_count) {
    if (bucket_count > kMaxBuckets / 2) {
      width_ = std::max<std::uint32_t>(1, width_ / 2);
    } else if (bucket_count <= kMaxBuckets / 4) {
      width_ = std::min(2 * width_, kMaxWidth);
    }
  }

 private:
  static constexpr std::uint32_t kMaxWidth = 256;
  // Unless there are more below a single base bucket.
  static constexpr std::size_t kMaxBuckets = 8192;

  std::uint32_t begin_;
  std::uint32_t step_end_;
  const std::uint32_t end_;
  std::uint32_t width_ = 1;
};

// The buckets of the base buckets from `first` to before `end`, as so many replicas have them (0:
// as the masters do), in the order of the digests; for what is missing there one without an epoch,
// which counts as `state` says, read before. Client, repository and state outlive it.
Task<absl::StatusOr<std::vector<WalkedBucket>>> WalkBuckets(RedisClient& client,
                                                            const RedisRepository& repository,
                                                            const RepositoryState& state,
                                                            std::uint32_t first, std::uint32_t end,
                                                            int replica_count);

// Adds what was seen.
void AddTo(WalkedTotals& totals, const WalkedBucket& bucket);

Task<absl::StatusOr<WalkedTotals>> WalkAll(RedisClient& client, const RedisRepository& repository,
                                           const RepositoryState& state, int replica_count);

}  // namespace kerf
