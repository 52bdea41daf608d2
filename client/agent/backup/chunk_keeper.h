// Decides what happens to every chunk that is answered: kept, known already, or reported stale.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "client/agent/backup/lane.h"
#include "client/agent/store/chunk_index.h"
#include "client/agent/store/pack_writer.h"

namespace kerf::agent {

struct ChunkCounts {
  std::uint64_t chunks = 0;
  // Chunks whose bytes this run put into the store.
  std::uint64_t new_chunks = 0;
  std::uint64_t new_bytes = 0;
  // Answered NEW though the store holds them: the index has lost them, and is told again.
  std::uint64_t healed_chunks = 0;
  // Answered DUPLICATE though the store does not hold them.
  std::uint64_t stale_chunks = 0;
};

// What the store holds is decided by the store itself (its ChunkIndex), never by the server's word
// alone. Thread-safe.
class ChunkKeeper final : public ChunkTaker {
 public:
  // Both outlive the keeper. `distrusted` chunks are stored anew whatever is said of them.
  ChunkKeeper(ChunkIndex& index, absl::flat_hash_set<Digest, DigestHash> distrusted);

  // Where Take puts new chunks of `lane`. Before the lane's first file.
  void AddLane(Lane& lane, PackWriter& writer);

  absl::Status Take(Lane& lane, const AnsweredChunk& chunk,
                    std::span<const std::uint8_t> bytes) override;

  // The on_sealed callback of the pack writers: the chunks are durable, so their lanes commit them.
  void OnSealed(const std::vector<StoredChunk>& chunks);

  ChunkCounts counts() const;

 private:
  // How often each lane was answered this chunk and has not committed it.
  struct Waiter {
    Lane* lane = nullptr;
    std::uint32_t answer_count = 0;
  };

  absl::Status Store(Lane& lane, const AnsweredChunk& chunk, std::span<const std::uint8_t> bytes);

  ChunkIndex& index_;
  const absl::flat_hash_set<Digest, DigestHash> distrusted_;

  mutable std::mutex mutex_;
  absl::flat_hash_map<Lane*, PackWriter*> writers_;
  // Chunks in packs that are not durable yet.
  absl::flat_hash_map<Digest, std::vector<Waiter>, DigestHash> unsealed_;
  // Of distrusted_: those that this run has stored again.
  absl::flat_hash_map<Digest, std::string, DigestHash> restored_;
  ChunkCounts counts_;
};

}  // namespace kerf::agent
