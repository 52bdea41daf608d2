// The server's index as those need it who hold the collector's lock.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_index.h"

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

inline constexpr std::size_t kMaxIndexBatch = 16 * 1024;
// Collects chunks for one kind of call on the index.
class IndexBatch {
 public:
  using Send = std::function<absl::Status(std::span<const StoredChunk>)>;
  explicit IndexBatch(Send send) : send_(std::move(send)) {}

  absl::Status Add(StoredChunk chunk) {
    chunks_.push_back(std::move(chunk));
    return chunks_.size() < kMaxIndexBatch ? absl::OkStatus() : Flush();
  }
  // All chunks of the pack, where it has them.
  absl::Status AddPack(const KnownPack& pack) {
    const std::vector<PackChunk>& chunks = pack.footer.chunks;
    for (std::uint32_t index = 0; index < chunks.size(); ++index) {
      KERF_RETURN_IF_ERROR(
          Add({chunks[index].digest, chunks[index].length_bytes, EncodeLocator(pack.id, index)}));
    }
    return absl::OkStatus();
  }
  absl::Status Flush() {
    if (chunks_.empty()) return absl::OkStatus();
    KERF_RETURN_IF_ERROR(send_(chunks_));
    chunks_.clear();
    return absl::OkStatus();
  }

 private:
  Send send_;
  std::vector<StoredChunk> chunks_;
};

}  // namespace kerf::agent
