// Which chunks of which packs are live.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent {

// Of a chunk that several packs hold, the copy that the index gives is live and the others are
// redundant. One bit a chunk. Not thread-safe.
class Marks {
 public:
  // Knows the packs that `index` holds now; `index` outlives it.
  explicit Marks(const ChunkIndex& index);

  // False if no pack holds the chunk. A pack that came later counts, and is not marked.
  bool Mark(const Digest& digest);

  std::size_t pack_count() const { return packs_.size(); }
  const KnownPack& pack(std::size_t pack_index) const { return *packs_[pack_index]; }
  const std::shared_ptr<const KnownPack>& shared_pack(std::size_t pack_index) const {
    return packs_[pack_index];
  }
  bool live(std::size_t pack_index, std::size_t chunk_index) const {
    return live_[pack_index][chunk_index];
  }
  std::uint64_t live_count(std::size_t pack_index) const { return live_counts_[pack_index]; }
  // True if a copy of this chunk, here or elsewhere, is live.
  bool referenced(std::size_t pack_index, std::size_t chunk_index) const;
  // Stored bytes of the pack that its live chunks do not account for.
  double DeadBytes(std::size_t pack_index) const;

 private:
  const ChunkIndex& index_;
  std::vector<std::shared_ptr<const KnownPack>> packs_;
  absl::flat_hash_map<const KnownPack*, std::size_t> index_of_;
  std::vector<std::vector<bool>> live_;
  std::vector<std::uint64_t> live_counts_;
};

}  // namespace kerf::agent
