// Where entries lie in Redis, and what is to be written there: docs/adr/0008 without a network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

// Bits of a digest that name its base bucket; of a new repository.
inline constexpr int kDefaultBaseBits = 10;
inline constexpr int kMaxBaseBits = 14;
// Bits of a bucket's path below its base bucket.
inline constexpr int kMaxPathBits = 24;
// A bucket with more entries is split.
inline constexpr std::size_t kMaxBucketEntries = 64;
// That a base bucket is split into at once.
inline constexpr int kMaxFirstPathBits = 8;
// Of a bucket: its epoch and what has been removed since. Shorter than any digest.
inline constexpr std::string_view kEpochField = "e";

// A repository as its keys name it: 16 letters that depend on its name and digest algorithm.
std::string RedisTagOf(const RepositoryId& repository);

// `m:{TAG}`.
std::string MetaKey(std::string_view tag);
// `k:{TAG:BASE}`, and behind it the path as '0' and '1'.
std::string BucketKey(std::string_view tag, std::uint32_t base, std::string_view path);

// Where it is written how long the longest path below a base bucket is.
std::string LongestPathKey(std::string_view tag, std::uint32_t base);

// The first `base_bits` bits of the digest.
std::uint32_t BaseOf(const Digest& digest, int base_bits);
// The last digest of a base bucket.
Digest LastOf(const RepositoryId& repository, std::uint32_t base, int base_bits);
// The `path_bits` bits behind them, as '0' and '1'.
std::string PathOf(const Digest& digest, int base_bits, int path_bits);

// The paths of `bits` bits more, in order.
std::vector<std::string> PathsBelow(const std::string& path, int bits);

// How long the paths of a repository's buckets are, so that `entry_count` entries fill them by half
// or so; 0 to kMaxFirstPathBits.
int FirstPathBits(std::uint64_t entry_count, int base_bits);

// What one bucket held when it was read.
struct BucketContent {
  // As stored; nothing: there is no such bucket.
  std::optional<std::string> epoch_value;
  std::uint64_t epoch = 0;
  // Entries that have been removed since it was raised.
  std::uint64_t removed_count = 0;
  // By the digests that were asked for: what is stored, "" for none.
  std::vector<std::string> values;
};

// What a call has come to think of a field, true only while the field is what it was.
struct FieldChange {
  std::string field;
  std::string expected;
  // Empty: the field goes. As expected: it stays.
  std::string wanted;

  bool is_change() const { return wanted != expected; }
};

// Entries of one call for one bucket: `digests[i]` is the digest of `content.values[i]`.
// DataLoss where stored bytes cannot be understood; InvalidArgument, here and below, for an epoch
// that no store can have (server/index/rules.h).
absl::StatusOr<LookupResult> LookupIn(const BucketContent& content, std::size_t index,
                                      std::uint64_t session_epoch);
// What the script of a change is to be given for the bucket's epoch: as it was read, and with what
// `changes` remove counted.
std::pair<std::string, std::string> EpochChange(const BucketContent& content,
                                                std::span<const FieldChange> changes);
// How many of the changes remove an entry.
std::uint64_t RemovedBy(std::span<const FieldChange> changes);
// Each plans for all of its entries, those that stay as they are too. FailedPrecondition if the
// session lies behind the bucket's epoch.
absl::StatusOr<std::vector<FieldChange>> PlanBucketCommit(const RepositoryId& repository,
                                                          const BucketContent& content,
                                                          std::uint64_t session_epoch,
                                                          std::span<const IndexEntry> entries,
                                                          bool replace);
absl::StatusOr<std::vector<FieldChange>> PlanBucketForget(const RepositoryId& repository,
                                                          const BucketContent& content,
                                                          std::span<const IndexEntry> entries);

// Which of all entries of a bucket, by digest, go for ForgetOlder of `epoch` (of them alone);
// `fields` are their keys, as stored, one for each of content.values.
absl::StatusOr<std::vector<FieldChange>> PlanBucketForgetOlder(const BucketContent& content,
                                                               std::span<const std::string> fields,
                                                               std::uint64_t epoch);

// The same for ResetEpoch of `epoch`: those that are of later epochs, with that one.
absl::StatusOr<std::vector<FieldChange>> PlanBucketReset(const BucketContent& content,
                                                         std::span<const std::string> fields,
                                                         std::uint64_t epoch);

}  // namespace kerf
