// Decides what happens to every chunk that is answered: kept, known already, or reported stale.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "client/agent/backup/chunk_taker.h"
#include "client/agent/backup/digest_check.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/pack_writer.h"

namespace kerf::agent {

struct ChunkCounts {
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  // Chunks whose bytes this run put into the store.
  std::uint64_t new_chunks = 0;
  std::uint64_t new_bytes = 0;
  // Of the new ones, those that describe files: also of unchanged ones there may be some, as of
  // folders above, or where a file was so new that its times had not settled.
  std::uint64_t new_metadata_chunks = 0;
  std::uint64_t new_metadata_bytes = 0;
  // Answered NEW though the store held them before this run: the index has lost them, or has not
  // heard of them yet (another agent's commit is under way, or that agent has died), and is told
  // again. So each insert that it has lost is counted by the first later backup that meets the
  // chunk.
  std::uint64_t healed_chunks = 0;
  // Answered DUPLICATE though the store does not hold them.
  std::uint64_t stale_chunks = 0;
};

enum class LaneContent { kFiles, kMetadata };

// What the store holds is decided by the store itself (its ChunkIndex), never by the server's word
// alone. Thread-safe.
class ChunkKeeper final : public ChunkTaker {
 public:
  // `index` outlives the keeper.
  ChunkKeeper(ChunkIndex& index, DigestAlgorithm digest_algorithm);

  // These chunks are stored anew, whatever the server says and the index shows. Before the first
  // Take.
  void Distrust(absl::flat_hash_set<Digest, DigestHash> digests) {
    distrusted_ = std::move(digests);
  }

  // True if the store has the chunk and will keep it.
  bool Holds(const Digest& digest) const {
    return !distrusted_.contains(digest) && index_.Contains(digest);
  }

  // Where new chunks of `lane` go. Before the lane's first file; both outlive the keeper's use.
  void AddLane(ChunkLane& lane, PackWriter& writer, LaneContent content);

  // DataLoss if `bytes` do not have the answered digest; a later call may say so, or of a chunk
  // that is written the writer's Flush, and of any other CheckTaken.
  absl::Status Take(ChunkLane& lane, const AnsweredChunk& chunk,
                    std::span<const std::uint8_t> bytes) override;

  // DataLoss unless every chunk that was taken, and is not written, has the digest that it was
  // answered under. Nothing may be published of them before.
  absl::Status CheckTaken() { return digest_check_.Finish(); }

  // The on_sealed callback of the pack writers: the chunks are durable, so their lanes commit them.
  void OnSealed(SealedPack pack);
  // Sends commits, and reports of stale chunks, that wait for a batch to fill.
  void SendCommits();

  // Chunks that were taken and are in no durable pack yet.
  std::size_t unsealed_count() const;
  ChunkCounts counts() const;

 private:
  // Entries of one Commit or ReportStale frame.
  static constexpr std::size_t kCommitBatchEntries = 1024;

  // How often a lane was answered a chunk that it has not committed.
  struct Waiter {
    ChunkLane* lane = nullptr;
    std::uint32_t answer_count = 0;
    bool reported_stale = false;
  };
  struct LaneState {
    PackWriter* writer = nullptr;
    LaneContent content = LaneContent::kFiles;
    std::vector<v1::CommitEntry> commits;
    std::vector<v1::CommitEntry> stales;
    std::uint64_t resolved_chunks = 0;
  };

  PackWriter* WriterIfNew(ChunkLane& lane, const AnsweredChunk& chunk);
  void AddCommit(ChunkLane& lane, const Digest& digest, std::string locator,
                 std::uint64_t resolved_chunks);
  void AddStale(ChunkLane& lane, const AnsweredChunk& chunk);
  v1::CommitEntry EntryOf(const Digest& digest, std::string locator) const;
  static void SendCommits(ChunkLane& lane, LaneState& state);
  static void SendStales(ChunkLane& lane, LaneState& state);

  ChunkIndex& index_;
  DigestCheck digest_check_;
  const std::size_t digest_size_bytes_;
  absl::flat_hash_set<Digest, DigestHash> distrusted_;

  mutable std::mutex mutex_;
  absl::flat_hash_map<ChunkLane*, LaneState> lanes_;
  // Chunks in packs that are not durable yet.
  absl::flat_hash_map<Digest, std::vector<Waiter>, DigestHash> unsealed_;
  // Of this run.
  std::set<PackId> own_packs_;
  // Of distrusted_: those that this run has stored again.
  absl::flat_hash_set<Digest, DigestHash> restored_;
  ChunkCounts counts_;
};

}  // namespace kerf::agent
