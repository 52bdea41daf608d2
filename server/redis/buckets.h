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
// `m:{TAG:BASE}`: the head of a base bucket (docs/adr/0022), if it has one.
std::string HeadKey(std::string_view tag, std::uint32_t base);

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

// What the head of a base bucket says: docs/adr/0022.
struct BucketHead {
  // As stored; empty: there is none.
  std::string value;
  // That was told to all buckets below.
  std::uint64_t epoch = 0;
  // How many of them have been found lost since.
  std::uint64_t lost_count = 0;

  bool is_there() const { return !value.empty(); }
  // Nobody knows what a bucket knew that is lost.
  std::uint64_t epoch_to_answer() const { return lost_count > 0 ? 0 : epoch; }
};
// Of a head's `e`; "" is none. DataLoss where it cannot be understood.
absl::StatusOr<BucketHead> ParseHead(std::string value);
// The `e` of a head of that epoch, below which nothing is lost.
std::string EncodeHead(std::uint64_t epoch);
// And of this head once one bucket more is found lost; "" where there is no head.
std::string WithLoss(const BucketHead& head);

// What one bucket held when it was read.
struct BucketContent {
  // As stored; nothing: there is no such bucket.
  std::optional<std::string> epoch_value;
  // The bucket's own.
  std::uint64_t epoch = 0;
  // Entries that have been removed since it was raised to that.
  std::uint64_t removed_count = 0;
  // Its `e` is of the later form: it follows a head.
  bool follows = false;
  // Nothing: it was not read. The scripts see to it that it still is so when something is written.
  std::optional<BucketHead> head;
  // What counts as the epoch of what is missing: of the bucket where there is no head either, or of
  // the head that it should follow (repository_state.h); the caller's.
  std::uint64_t epoch_without = 0;
  // It is to be made, and a head with it; the caller's.
  bool makes_head = false;
  // By the digests that were asked for: what is stored, "" for none.
  std::vector<std::string> values;

  bool is_there() const { return epoch_value.has_value(); }
  bool has_head() const { return head.has_value() && head->is_there(); }
  // It was written while its head was not there, or has come back alone: by this head nothing of it
  // is believed.
  bool is_apart() const { return is_there() && !follows && has_head(); }
};
// Reads a bucket's `e`, of either form. DataLoss where it cannot be understood.
absl::Status SetEpoch(BucketContent& content, const std::string& value);

// Sessions of earlier epochs may not commit.
std::uint64_t FenceOf(const BucketContent& content);
// What entries are believed by that one step has seen together with the head.
std::uint64_t BelievedEpochOf(const BucketContent& content);
// What calls answer that tell an epoch.
std::uint64_t EpochToAnswer(const BucketContent& content);
// How many entries have been removed since that was told.
std::uint64_t RemovedSince(const BucketContent& content);
// Whether an entry, or the session itself, may be worth more once the head is known, which was not
// read: what is there says too little. DataLoss as below.
absl::StatusOr<bool> IsInDoubt(const BucketContent& content, std::uint64_t session_epoch);

// What a call has come to think of a field, true only while the field is what it was.
struct FieldChange {
  std::string field;
  std::string expected;
  // Empty: the field goes. As expected: it stays.
  std::string wanted;

  bool is_change() const { return wanted != expected; }
};

// Entries of one call for one bucket: `digests[i]` is the digest of `content.values[i]`. They are
// believed by the bucket's own epoch. DataLoss where stored bytes cannot be understood;
// InvalidArgument, here and below, for an epoch that no store can have (server/index/rules.h).
absl::StatusOr<LookupResult> LookupIn(const BucketContent& content, std::size_t index,
                                      std::uint64_t session_epoch);
// What the script of a change is to be given for the bucket's epoch: as it was read, and with what
// `changes` remove counted. A bucket that follows a head has the head's epoch from then on. One of
// which the head is not there follows none any more: a head that comes back has not seen it.
std::pair<std::string, std::string> EpochChange(const BucketContent& content,
                                                std::span<const FieldChange> changes);
// The new one for a bucket that is_apart(), once all entries of before its head's epoch go.
std::string EpochToRejoin(const BucketContent& content, std::span<const FieldChange> changes);
// The same for the head's: a bucket that is lost and made again is a loss from then on.
std::pair<std::string, std::string> HeadChange(const BucketContent& content);
// How many of the changes remove an entry.
std::uint64_t RemovedBy(std::span<const FieldChange> changes);
bool AreAnyChanges(std::span<const FieldChange> changes);
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
