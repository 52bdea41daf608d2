#include "client/store/collect/marks.h"

#include <optional>

namespace kerf::agent {

Marks::Marks(const ChunkIndex& index) : index_(index), packs_(index.packs()) {
  live_.reserve(packs_.size());
  live_counts_.resize(packs_.size());
  for (std::size_t pack_index = 0; pack_index < packs_.size(); ++pack_index) {
    index_of_.emplace(packs_[pack_index].get(), pack_index);
    live_.emplace_back(packs_[pack_index]->footer.chunks.size());
  }
}

bool Marks::Mark(const Digest& digest) {
  const std::optional<ChunkPlace> place = index_.Locate(digest);
  if (!place.has_value()) return false;
  const auto found = index_of_.find(place->pack.get());
  if (found == index_of_.end()) return true;
  const std::size_t pack_index = found->second;
  if (!live_[pack_index][place->chunk_index]) {
    live_[pack_index][place->chunk_index] = true;
    ++live_counts_[pack_index];
  }
  return true;
}

bool Marks::referenced(std::size_t pack_index, std::size_t chunk_index) const {
  if (live(pack_index, chunk_index)) return true;
  const auto place = index_.Locate(pack(pack_index).footer.chunks[chunk_index].digest);
  if (!place.has_value()) return false;
  const auto found = index_of_.find(place->pack.get());
  // A pack that came later is not for this collection to judge.
  return found == index_of_.end() || live(found->second, place->chunk_index);
}

double Marks::DeadBytes(std::size_t pack_index) const {
  const PackFooter& footer = pack(pack_index).footer;
  double dead_bytes = 0;
  for (std::size_t chunk_index = 0; chunk_index < footer.chunks.size(); ++chunk_index) {
    if (live(pack_index, chunk_index)) continue;
    const PackChunk& chunk = footer.chunks[chunk_index];
    const PackBlock& block = footer.blocks[chunk.block_index];
    if (block.raw_bytes == 0) continue;
    dead_bytes += static_cast<double>(block.stored_bytes) * chunk.length_bytes / block.raw_bytes;
  }
  return dead_bytes;
}

}  // namespace kerf::agent
