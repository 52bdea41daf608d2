// Gets out of a damaged pack what is sound in it.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_index.h"

namespace kerf::agent {

// As much of a block's raw bytes as can be made of what is stored of it; zeros behind.
std::vector<std::uint8_t> DecodePrefix(const PackBlock& block, std::vector<std::uint8_t> stored);

// The footer of a pack whose beginning is damaged.
absl::StatusOr<KnownPack> ReadFooterAnyway(const std::string& path, const PackId& id);

// Which chunks there may be, and what follows each of them in a file. Not thread-safe.
class ChunkOrder {
 public:
  // In the order in which recipes name them.
  void Add(const ChunkRef& chunk);
  // Between two recipes.
  void Break() { has_last_ = false; }
  bool empty() const { return length_of_.empty(); }

  // The chunk with which `bytes` begin, if it is one of them; `previous` is the one before it, or
  // null. Nothing: none of them.
  bool Match(DigestAlgorithm algorithm, std::span<const std::uint8_t> bytes, const Digest* previous,
             ChunkRef& found) const;

 private:
  bool Is(DigestAlgorithm algorithm, std::span<const std::uint8_t> bytes,
          std::uint32_t length_bytes, ChunkRef& found) const;

  absl::flat_hash_map<Digest, std::uint32_t, DigestHash> length_of_;
  absl::flat_hash_map<Digest, Digest, DigestHash> next_of_;
  // Each once.
  absl::flat_hash_set<std::uint32_t> lengths_;
  Digest last_;
  bool has_last_ = false;
};

using FoundChunk = std::function<absl::Status(const ChunkRef&, std::span<const std::uint8_t>)>;

// Finds chunks in the bytes of a pack whose footer is lost: blocks by their zstd frames, chunks in
// them and in raw bytes because their digests are known. Behind a chunk that is not known nothing
// is found up to the next frame. An error only if `found` returns one.
absl::Status FindChunks(std::span<const std::uint8_t> pack, DigestAlgorithm algorithm,
                        const ChunkOrder& order, const FoundChunk& found);

}  // namespace kerf::agent
