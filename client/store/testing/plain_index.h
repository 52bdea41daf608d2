// The server's index as one collection at a time sees it.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "client/store/collect/epoch_round.h"
#include "client/store/index/collection_index.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

// Small: what is tested has several pages.
inline constexpr std::size_t kScannedEntries = 2;

// Remembers what it was told.
class PlainIndex final : public CollectionIndex {
 public:
  absl::StatusOr<std::uint64_t> ReadEpoch() override { return epoch; }
  absl::StatusOr<std::uint64_t> AdvanceEpoch(std::uint64_t to, std::uint64_t min_before) override {
    if (before_change) KERF_RETURN_IF_ERROR(before_change());
    KERF_RETURN_IF_ERROR(advance_status);
    if (epoch < min_before) return epoch;
    if (to < epoch) return absl::FailedPreconditionError("the epoch lies behind");
    if (to - epoch > (epoch == 0 ? kMaxFirstIndexEpoch : kMaxIndexEpochStep))
      return absl::InvalidArgumentError("too far ahead");
    if (to > epoch) removed_count = 0;
    return std::exchange(epoch, to);
  }
  absl::StatusOr<ForgottenChunks> Forget(std::span<const StoredChunk> chunks) override {
    if (before_forget) before_forget();
    if (before_change) KERF_RETURN_IF_ERROR(before_change());
    ForgottenChunks forgotten{0, epoch, 0};
    for (const StoredChunk& chunk : chunks) forgotten.count += Remove(chunk.digest);
    forgotten.removed_count = removed_count;
    return forgotten;
  }
  absl::StatusOr<ForgottenChunks> ForgetOlder(std::uint64_t before_epoch) override {
    if (before_change) KERF_RETURN_IF_ERROR(before_change());
    ForgottenChunks forgotten{0, epoch, 0};
    const std::map<Digest, std::string> all = locators;
    for (const auto& [digest, locator] : all) {
      if (epochs[digest] < before_epoch) forgotten.count += Remove(digest);
    }
    forgotten.removed_count = removed_count;
    return forgotten;
  }
  absl::Status Commit(std::uint64_t session_epoch, std::span<const StoredChunk> chunks) override {
    if (before_change) KERF_RETURN_IF_ERROR(before_change());
    for (const StoredChunk& chunk : chunks) Put(chunk.digest, chunk.locator, session_epoch);
    commit_count += chunks.size();
    return absl::OkStatus();
  }
  absl::StatusOr<std::vector<StoredChunk>> ScanPage(const std::optional<Digest>& after) override {
    std::vector<StoredChunk> page;
    for (auto at = after.has_value() ? locators.upper_bound(*after) : locators.begin();
         at != locators.end() && page.size() < kScannedEntries; ++at) {
      page.push_back({at->first, 0, at->second});
    }
    return page;
  }
  void Put(const Digest& digest, const std::string& locator, std::uint64_t session_epoch) {
    locators[digest] = locator;
    epochs[digest] = session_epoch;
  }
  // To what it held then.
  void SetBack(const PlainIndex& then) {
    epoch = then.epoch;
    removed_count = then.removed_count;
    locators = then.locators;
    epochs = then.epochs;
  }
  std::size_t Remove(const Digest& digest) {
    const std::size_t count = locators.erase(digest);
    removed_count += count;
    return count;
  }

  // As an agent would have committed all that the store holds.
  void CommitAll(const Store& store) {
    ChunkIndex packs(store.packs_directory());
    ASSERT_TRUE(packs.Refresh().ok());
    for (const auto& pack : packs.packs()) {
      for (std::uint32_t chunk = 0; chunk < pack->footer.chunks.size(); ++chunk) {
        locators[pack->footer.chunks[chunk].digest] = EncodeLocator(pack->id, chunk);
      }
    }
  }

  std::uint64_t epoch = 1;
  // Since the epoch was raised.
  std::uint64_t removed_count = 0;
  std::map<Digest, std::string> locators;
  // Of the sessions that have committed them; none is that of the first.
  std::map<Digest, std::uint64_t> epochs;
  std::function<void()> before_forget;
  // Before each call that changes something; if it is not OK, that is all that happens.
  std::function<absl::Status()> before_change;
  // If it is not OK, no epoch is taken.
  absl::Status advance_status;
  std::uint64_t commit_count = 0;
};

}  // namespace kerf::agent
