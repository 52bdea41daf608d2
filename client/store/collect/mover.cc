#include "client/store/collect/mover.h"

#include <mutex>
#include <optional>
#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::agent {

Mover::Mover(const ChunkIndex& index, ChunkReader& reader, const Marks& marks,
             std::vector<Target>& targets, std::vector<std::string>& damage)
    : index_(index), reader_(reader), marks_(marks), targets_(targets), damage_(damage) {
  for (Target& target : targets_) target_of_.emplace(&marks_.pack(target.pack_index), &target);
}

// False if the copy that is to stay instead of this redundant one cannot be read, or has rotted:
// whatever keeps it from being read today, it is the last one once this pack is gone.
bool Mover::OtherCopyIsSound(const PackChunk& chunk) {
  const std::optional<ChunkPlace> place = index_.Locate(chunk.digest);
  // Of a chunk that is moved, any copy that is sound is taken.
  if (!place.has_value() || IsTarget(*place->pack)) return true;
  const absl::Status status = reader_.ReadAt(*place, {chunk.digest, chunk.length_bytes}).status();
  if (!status.ok() && told_.insert(place->pack.get()).second) {
    damage_.push_back(Cat(MessageOf(status), " (left as it is)"));
  }
  return status.ok();
}

bool Mover::MustMove(const Target& target, std::uint32_t chunk_index) {
  if (marks_.live(target.pack_index, chunk_index)) return true;
  if (!marks_.referenced(target.pack_index, chunk_index)) return false;
  const PackChunk& chunk = marks_.pack(target.pack_index).footer.chunks[chunk_index];
  return !saved_.contains(chunk.digest) && !OtherCopyIsSound(chunk);
}

// This copy first: of a redundant one the other is known not to be sound.
absl::StatusOr<ChunkBytes> Mover::ReadToMove(const Target& target, std::uint32_t chunk_index) {
  const ChunkPlace place{marks_.shared_pack(target.pack_index), chunk_index};
  const ChunkRef chunk{place.chunk().digest, place.chunk().length_bytes};
  absl::StatusOr<ChunkBytes> bytes = reader_.ReadAt(place, chunk);
  if (bytes.ok()) return bytes;
  for (const ChunkPlace& other : index_.LocateAll(chunk.digest)) {
    if (other.pack == place.pack && other.chunk_index == place.chunk_index) continue;
    absl::StatusOr<ChunkBytes> others_bytes = reader_.ReadAt(other, chunk);
    if (others_bytes.ok()) return others_bytes;
  }
  absl::StatusOr<ChunkBytes> mended = reader_.ReadWithParity(place, chunk);
  if (!mended.ok()) return bytes;
  // Once for each pack.
  if (told_.insert(place.pack.get()).second) {
    damage_.push_back(Cat(MessageOf(bytes.status()), " (its parity gave back what is lost)"));
  }
  return mended;
}

// What cannot be read today, perhaps can tomorrow, or on another machine: no copy of it goes.
void Mover::KeepCopiesOf(const Digest& digest, const absl::Status& why) {
  bool is_told = false;
  for (const ChunkPlace& place : index_.LocateAll(digest)) {
    const auto target = target_of_.find(place.pack.get());
    if (target == target_of_.end()) continue;
    is_told |= target->second->keep;
    target->second->keep = true;
  }
  // Once for each pack.
  if (!is_told) damage_.push_back(Cat(MessageOf(why), " (its pack is kept)"));
}

absl::Status Mover::MoveChunks(PackWriter& writer) {
  for (Target& target : targets_) {
    const std::vector<PackChunk>& chunks = marks_.pack(target.pack_index).footer.chunks;
    for (std::uint32_t chunk_index = 0; chunk_index < chunks.size(); ++chunk_index) {
      if (!MustMove(target, chunk_index)) continue;
      const Digest& digest = chunks[chunk_index].digest;
      const absl::StatusOr<ChunkBytes> bytes = ReadToMove(target, chunk_index);
      if (!bytes.ok()) {
        // The rest of the pack is moved all the same: of a chunk that is damaged here and sound in
        // another pack that goes, this is the only reading.
        KeepCopiesOf(digest, bytes.status());
        target.keep = true;
        continue;
      }
      if (!marks_.live(target.pack_index, chunk_index)) saved_.insert(digest);
      KERF_RETURN_IF_ERROR(writer.Add(digest, bytes->bytes()));
      moved_bytes_ += chunks[chunk_index].length_bytes;
    }
  }
  return writer.Flush();
}

// Of all that was handed to the writer only the packs that it has sealed are there.
void Mover::KeepWhatIsNotDurable() {
  absl::flat_hash_set<Digest, DigestHash> durable;
  moved_bytes_ = 0;
  for (const SealedPack& pack : moved_) {
    for (const PackChunk& chunk : pack.footer.chunks) {
      durable.insert(chunk.digest);
      moved_bytes_ += chunk.length_bytes;
    }
  }
  for (Target& target : targets_) {
    const std::vector<PackChunk>& chunks = marks_.pack(target.pack_index).footer.chunks;
    for (std::uint32_t chunk_index = 0; chunk_index < chunks.size() && !target.keep;
         ++chunk_index) {
      if (!durable.contains(chunks[chunk_index].digest)) {
        target.keep = IsLastCopy(target, chunk_index);
      }
    }
  }
}

// True unless nobody needs the chunk, or another copy of it is sound: also one in a pack that was
// to go, which stays now.
bool Mover::IsLastCopy(const Target& target, std::uint32_t chunk_index) {
  if (marks_.live(target.pack_index, chunk_index)) return true;
  if (!marks_.referenced(target.pack_index, chunk_index)) return false;
  const PackChunk& chunk = marks_.pack(target.pack_index).footer.chunks[chunk_index];
  const std::optional<ChunkPlace> place = index_.Locate(chunk.digest);
  return !place.has_value() || !reader_.ReadAt(*place, {chunk.digest, chunk.length_bytes}).ok();
}

absl::Status Mover::Move(const PackWriterOptions& options) {
  std::mutex mutex;
  PackWriterOptions writer_options = options;
  writer_options.on_sealed = [this, &mutex](SealedPack pack) {
    const std::lock_guard lock(mutex);
    moved_.push_back(std::move(pack));
  };
  absl::Status status;
  {
    PackWriter writer(std::move(writer_options));
    status = MoveChunks(writer);
  }
  if (absl::IsResourceExhausted(status)) {
    disk_was_full_ = true;
    KeepWhatIsNotDurable();
    return absl::OkStatus();
  }
  return status;
}

}  // namespace kerf::agent
