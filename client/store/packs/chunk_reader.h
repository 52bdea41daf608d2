// Gets chunks back out of packs.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_places.h"
#include "client/store/packs/known_pack.h"

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
    // Nothing is asked for that was not in the store before: what is missing when a look at the
    // folder brings nothing new is missing for good, and not worth a look for each chunk.
    bool old_chunks_only = false;
  };

  // `places` outlive the reader.
  ChunkReader(ChunkPlaces& places, const Options& options);

  // Any copy that is sound, whatever is wrong with the others; else one that its pack's parity
  // gives back. NotFound if no pack is known to hold the chunk (the places look again before that
  // is said); DataLoss if one may, which lies where nobody can look. If no copy can be read, what
  // is wrong with the first, with the pack's path: DataLoss if it holds something else.
  absl::StatusOr<ChunkBytes> Read(const ChunkRef& chunk);

  // One copy, as it is.
  absl::StatusOr<ChunkBytes> ReadAt(const ChunkPlace& place, const ChunkRef& chunk) {
    return ReadFrom(place, chunk, Source::kPack);
  }
  // One copy, as its pack's parity gives it back. NotFound if the pack has none.
  absl::StatusOr<ChunkBytes> ReadWithParity(const ChunkPlace& place, const ChunkRef& chunk) {
    return ReadFrom(place, chunk, Source::kParity);
  }

  // What was wrong with copies in whose place Read gave another one, or what parity gave back: the
  // first of each pack, by path.
  std::vector<absl::Status> stepped_over() const;

  // Blocks that were read from packs, as they are, and not from memory.
  std::uint64_t loaded_block_count() const { return loaded_block_count_; }

 private:
  using Block = std::shared_ptr<const std::vector<std::uint8_t>>;
  struct Cached {
    std::string key;
    Block block;
  };
  // One lock for each; a block belongs to one by its key.
  struct Shard {
    std::mutex mutex;
    std::condition_variable loaded;
    // Blocks that a thread is reading: others wait for it.
    absl::flat_hash_set<std::string> loading;
    // Blocks that cannot be decompressed, or that parity does not give back: each is read once, not
    // once for each chunk in it.
    absl::flat_hash_map<std::string, absl::Status> damaged;
    std::list<Cached> recent;
    absl::flat_hash_map<std::string, std::list<Cached>::iterator> by_key;
    std::uint64_t size_bytes = 0;
  };

  enum class Source : char { kPack = 'p', kParity = 'r' };
  struct Unreadable {
    ChunkPlace place;
    absl::Status status;
  };
  struct CopyFailure {
    // No pack is known to hold the chunk.
    bool is_unknown = false;
    // It is unknown, or a pack that held it is gone.
    bool looks_moved = false;
  };

  absl::StatusOr<ChunkBytes> ReadAnyCopy(const ChunkRef& chunk, CopyFailure& failure);
  absl::StatusOr<ChunkBytes> ReadAnyWithParity(const ChunkRef& chunk,
                                               std::vector<Unreadable> failed);
  absl::StatusOr<ChunkBytes> ReadFrom(const ChunkPlace& place, const ChunkRef& chunk,
                                      Source source);
  absl::Status DescribeUnknown(const ChunkRef& chunk) const;
  absl::Status LookAgain(bool is_unknown);
  void StepOver(std::vector<Unreadable> copies);
  absl::StatusOr<Block> GetBlock(const ChunkPlace& place, Source source);
  absl::StatusOr<Block> LoadBlock(const ChunkPlace& place, Source source);
  void Keep(Shard& shard, const std::string& key, const Block& block) const;

  ChunkPlaces& places_;
  const Options options_;
  std::array<Shard, 8> shards_;
  std::atomic<std::uint64_t> loaded_block_count_ = 0;
  std::mutex look_mutex_;
  // The last look brought nothing new.
  bool settled_ = false;
  mutable std::mutex stepped_over_mutex_;
  // By the pack's path.
  std::map<std::string, absl::Status> stepped_over_;
};

}  // namespace kerf::agent
