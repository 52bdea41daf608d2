// Decides what happens to every chunk that is answered: kept, known already, or reported stale.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "client/agent/backup/chunk_taker.h"
#include "client/agent/backup/digest_check.h"
#include "client/agent/backup/known_chunks.h"
#include "client/store/packs/known_pack.h"
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
  // chunk. A run by place does not know of them, and stores them.
  std::uint64_t healed_chunks = 0;
  // Answered DUPLICATE though they are not known to be in the store.
  std::uint64_t stale_chunks = 0;
};

enum class LaneContent { kFiles, kMetadata };

// What the store holds is decided by the store itself (KnownChunks), never by the server's word
// alone. Thread-safe.
class ChunkKeeper final : public ChunkTaker {
 public:
  // `known` outlives the keeper.
  ChunkKeeper(KnownChunks& known, DigestAlgorithm digest_algorithm);

  // Where new chunks of `lane` go. Before the lane's first file; both outlive the keeper's use.
  void AddLane(ChunkLane& lane, PackWriter& writer, LaneContent content);

  // DataLoss if `bytes` do not have the answered digest; a later call may say so, or of a chunk
  // that is written the writer's Flush, and of any other CheckTaken.
  // Without memory the process ends: all lanes have what it may have left half done.
  absl::Status Take(ChunkLane& lane, const AnsweredChunk& chunk,
                    std::span<const std::uint8_t> bytes) noexcept override;

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
  std::optional<ChunkPlace> FindPlace(const AnsweredChunk& chunk);
  void AddCommit(ChunkLane& lane, const Digest& digest, std::string locator,
                 std::uint64_t resolved_chunks);
  void AddStale(ChunkLane& lane, const AnsweredChunk& chunk);
  v1::CommitEntry EntryOf(const Digest& digest, std::string locator) const;
  static void SendCommits(ChunkLane& lane, LaneState& state);
  static void SendStales(ChunkLane& lane, LaneState& state);

  KnownChunks& known_;
  DigestCheck digest_check_;
  const std::size_t digest_size_bytes_;

  mutable std::mutex mutex_;
  absl::flat_hash_map<ChunkLane*, LaneState> lanes_;
  // Chunks in packs that are not durable yet.
  absl::flat_hash_map<Digest, std::vector<Waiter>, DigestHash> unsealed_;
  // Of this run.
  std::set<PackId> own_packs_;
  ChunkCounts counts_;
};

}  // namespace kerf::agent
