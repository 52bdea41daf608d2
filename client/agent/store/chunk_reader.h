// Gets chunks back out of packs.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/agent/store/chunk_index.h"
#include "client/agent/store/chunk_ref.h"

namespace kerf::agent {

// The bytes of a chunk; keeps the block that they lie in alive.
class ChunkBytes {
 public:
  ChunkBytes() = default;
  ChunkBytes(std::shared_ptr<const std::vector<std::uint8_t>> block,
             std::span<const std::uint8_t> bytes)
      : block_(std::move(block)), bytes_(bytes) {}
  std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::shared_ptr<const std::vector<std::uint8_t>> block_;
  std::span<const std::uint8_t> bytes_;
};

// Thread-safe. Keeps the blocks that were used last in memory, so that reading in the order of
// writing decompresses each block once.
class ChunkReader {
 public:
  struct Options {
    std::uint64_t cache_bytes = std::uint64_t{64} << 20;
    // Hashes every chunk that is read.
    bool verify = true;
  };

  // `index` outlives the reader.
  ChunkReader(ChunkIndex& index, const Options& options);

  // NotFound if no pack holds the chunk (the index is refreshed once before that is said);
  // DataLoss, with the pack's path, if the pack holds something else under its name.
  absl::StatusOr<ChunkBytes> Read(const ChunkRef& chunk);

 private:
  using Block = std::shared_ptr<const std::vector<std::uint8_t>>;
  struct Cached {
    std::string key;
    Block block;
  };
  // One lock for each; a block belongs to one by its key.
  struct Shard {
    std::mutex mutex;
    std::list<Cached> recent;
    absl::flat_hash_map<std::string, std::list<Cached>::iterator> by_key;
    std::uint64_t size_bytes = 0;
  };

  absl::StatusOr<ChunkBytes> ReadAt(const ChunkPlace& place, const ChunkRef& chunk);
  absl::StatusOr<Block> GetBlock(const ChunkPlace& place);
  absl::StatusOr<Block> LoadBlock(const ChunkPlace& place) const;

  ChunkIndex& index_;
  const Options options_;
  std::array<Shard, 8> shards_;
};

}  // namespace kerf::agent
