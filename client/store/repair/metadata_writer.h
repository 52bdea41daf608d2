// Cuts a metadata stream as a backup has it cut, and writes what the store has not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/snapshots/store.h"
#include "kernels/chunker.h"
#include "kernels/stream_cutter.h"

namespace kerf::agent {

// Not thread-safe.
class MetadataWriter {
 public:
  // `reader` and `packs` outlive it. Chunks in `distrusted` count as not stored.
  static absl::StatusOr<std::unique_ptr<MetadataWriter>> Make(const Store& store,
                                                              ChunkReader& reader,
                                                              PackWriter& packs,
                                                              const DigestSet& distrusted);

  absl::Status Append(std::span<const std::uint8_t> bytes);
  // The stream ends here.
  absl::Status Finish();

  const std::vector<ChunkRef>& recipe() const { return recipe_; }
  // Chunks that the store had not, or not so that they can be read.
  std::uint64_t new_chunk_count() const { return new_chunk_count_; }
  std::uint64_t new_bytes() const { return new_bytes_; }

 private:
  MetadataWriter(const Store& store, std::unique_ptr<Chunker> chunker, ChunkReader& reader,
                 PackWriter& packs, const DigestSet& distrusted);

  absl::Status TakeChunks();

  const DigestAlgorithm digest_algorithm_;
  const std::unique_ptr<Chunker> chunker_;
  StreamCutter cutter_;
  ChunkReader& reader_;
  PackWriter& packs_;
  // And those that are on their way into a pack are not written twice.
  DigestSet distrusted_;
  DigestSet written_;
  std::vector<ChunkRef> recipe_;
  std::uint64_t new_chunk_count_ = 0;
  std::uint64_t new_bytes_ = 0;
};

}  // namespace kerf::agent
