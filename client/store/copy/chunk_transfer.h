// Brings chunks of one store into packs of another one that does not hold them yet.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "client/store/collect/collection_guard.h"
#include "client/store/format/chunk_ref.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/compression.h"
#include "client/store/packs/pack_writer.h"
#include "client/store/snapshots/store.h"

namespace kerf::agent {

struct TransferOptions {
  // Of new packs.
  Compression compression;
  // A pack is sealed when it has grown to this.
  std::uint64_t target_pack_bytes = PackWriterOptions().target_pack_bytes;
  // 0: as many as there are cores.
  unsigned thread_count = 0;
  // Looked at between batches; null: nobody interrupts.
  std::function<bool()> cancelled;
  // As of PackWriterOptions.
  std::function<void(const absl::Status&)> on_parity_failed;
};

// What the other store's collections may not have taken away is asked of its own packs: a chunk
// that they list is not read. Every chunk that is read is held against its digest, once as it comes
// and once more as it is written. Not thread-safe.
class ChunkTransfer {
 public:
  // Metadata lies in packs of its own, so that the tree of a snapshot is read in one go.
  enum class Kind : std::uint8_t { kData, kMetadata };

  // `source` and `index`, which is of the target, outlive it.
  ChunkTransfer(ChunkReader& source, const Store& target, ChunkIndex& index,
                const TransferOptions& options);

  // A new session: from now on, until they are written again, these count as not stored. Nothing is
  // on its way.
  void Distrust(DigestSet condemned) { condemned_ = std::move(condemned); }

  // Copies the chunk, now or with a later call. After a failure of the source (what it says of the
  // chunk that could not be read) others may be wanted; after one of the target nothing is of use
  // any more.
  absl::Status Want(const ChunkRef& chunk, Kind kind);
  // What waits for a batch to fill.
  absl::Status CopyWanted();
  // Forgets what waits for it.
  void DropWanted();
  // Makes all that was copied durable. A failure is the target's.
  absl::Status Flush();

  bool target_failed() const { return target_failed_; }
  // Since the last Flush, raw.
  std::uint64_t unflushed_bytes() const { return unflushed_bytes_; }
  std::uint64_t new_chunk_count() const { return new_chunk_count_; }
  std::uint64_t new_bytes() const { return new_bytes_; }
  // Bytes of the packs that are sealed.
  std::uint64_t stored_bytes() const;
  // What has become durable since this was asked last.
  std::vector<StoredChunk> TakeSealed();

 private:
  std::unique_ptr<PackWriter> MakeWriter(unsigned thread_count, const Compression& compression);
  void OnSealed(SealedPack pack);
  bool IsStored(const ChunkRef& chunk);
  absl::Status OfTarget(const absl::Status& status);

  ChunkReader& source_;
  const Store& target_;
  ChunkIndex& index_;
  const TransferOptions options_;
  DigestSet condemned_;
  std::vector<ChunkRef> wanted_;
  std::uint64_t wanted_bytes_ = 0;
  Kind wanted_kind_ = Kind::kData;
  std::uint64_t unflushed_bytes_ = 0;
  std::uint64_t new_chunk_count_ = 0;
  std::uint64_t new_bytes_ = 0;
  bool target_failed_ = false;

  std::mutex mutex_;
  // On their way into a pack, with their lengths.
  absl::flat_hash_map<Digest, std::uint32_t, DigestHash> unsealed_;
  std::vector<StoredChunk> sealed_;
  // Last, so that their threads end first.
  std::unique_ptr<PackWriter> data_writer_;
  std::unique_ptr<PackWriter> metadata_writer_;
};

}  // namespace kerf::agent
