// The server's index as those need it who hold the collector's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/index/readable_index.h"

namespace kerf::agent {

// Index::ForgetResult.
struct ForgottenChunks {
  // Entries that were there.
  std::uint64_t count = 0;
  // The index's while they went.
  std::uint64_t epoch = 0;
  // What anybody has removed since that epoch was told; 0: none of these chunks.
  std::uint64_t removed_count = 0;

  // What a call says that is one of several.
  void Add(const ForgottenChunks& more) {
    count += more.count;
    epoch = std::min(epoch, more.epoch);
    removed_count += more.removed_count;
  }
  // Nothing was there when the index was told its epoch, or it would have been seen now: so nothing
  // of it comes back as long as the index keeps `min_epoch`.
  bool NothingWasThere(std::uint64_t min_epoch) const {
    return count == 0 && removed_count == 0 && epoch >= min_epoch;
  }
};

// The calls come from one thread, with at most kMaxIndexBatch chunks each, and return when the
// index has done it durably. They may be repeated.
class CollectionIndex {
 public:
  virtual ~CollectionIndex() = default;
  // The repository's epoch, 0 if it was never told any.
  virtual absl::StatusOr<std::uint64_t> ReadEpoch() = 0;
  // Index::AdvanceEpoch: returns the epoch before; if that is below `min_before`, nothing was
  // changed. From then on, commits of sessions of an earlier epoch are refused.
  virtual absl::StatusOr<std::uint64_t> AdvanceEpoch(std::uint64_t epoch,
                                                     std::uint64_t min_before) = 0;
  // Index::Forget; the locators are empty: whatever place the index names.
  virtual absl::StatusOr<ForgottenChunks> Forget(std::span<const StoredChunk> chunks) = 0;
  // Index::ForgetOlder over all of the repository: removes what sessions of an earlier epoch have
  // committed.
  virtual absl::StatusOr<ForgottenChunks> ForgetOlder(std::uint64_t epoch) = 0;
  // Index::Commit with `replace`.
  virtual absl::Status Commit(std::uint64_t epoch, std::span<const StoredChunk> chunks) = 0;
  // The next entries behind `after` in digest order, kMaxIndexBatch at most; none: that was all.
  virtual absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>& after) = 0;
};

}  // namespace kerf::agent
