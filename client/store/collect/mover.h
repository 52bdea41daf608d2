// Copies what is in use out of the packs that a collection deletes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/store/collect/collection.h"
#include "client/store/collect/marks.h"
#include "client/store/collect/targets.h"
#include "client/store/packs/chunk_index.h"
#include "client/store/packs/chunk_reader.h"
#include "client/store/packs/pack_writer.h"

namespace kerf::agent {

// Sets Target::keep of every pack that must not go: one with a chunk in use of which no sound copy
// was written or is elsewhere. Not thread-safe.
class Mover {
 public:
  // All outlive the mover, and `targets` stays where it is. `damage` gets a line for each pack with
  // a chunk that cannot be read.
  Mover(const ChunkIndex& index, ChunkReader& reader, const Marks& marks,
        std::vector<Target>& targets, std::vector<std::string>& damage);

  bool IsTarget(const KnownPack& pack) const { return target_of_.contains(&pack); }

  // What cannot be read is no error, nor is a disk that is full: packs are kept for it.
  absl::Status Move(const PackWriterOptions& options);

  // Packs that hold what was moved; durable.
  const std::vector<SealedPack>& moved() const { return moved_; }
  std::uint64_t moved_bytes() const { return moved_bytes_; }
  // There was no room for everything.
  bool disk_was_full() const { return disk_was_full_; }

 private:
  absl::Status MoveChunks(PackWriter& writer);
  absl::StatusOr<ChunkBytes> ReadToMove(const Target& target, std::uint32_t chunk_index);
  bool MustMove(const Target& target, std::uint32_t chunk_index);
  bool OtherCopyIsSound(const PackChunk& chunk);
  void KeepCopiesOf(const Digest& digest, const absl::Status& why);
  void KeepWhatIsNotDurable();
  bool IsLastCopy(const Target& target, std::uint32_t chunk_index);

  const ChunkIndex& index_;
  ChunkReader& reader_;
  const Marks& marks_;
  std::vector<Target>& targets_;
  std::vector<std::string>& damage_;
  absl::flat_hash_map<const KnownPack*, Target*> target_of_;
  // Redundant copies that are moved because the other one is not sound.
  absl::flat_hash_set<Digest, DigestHash> saved_;
  // Packs that stay and of which it was said that they are damaged.
  absl::flat_hash_set<const KnownPack*> told_;
  std::vector<SealedPack> moved_;
  std::uint64_t moved_bytes_ = 0;
  bool disk_was_full_ = false;
};

}  // namespace kerf::agent
