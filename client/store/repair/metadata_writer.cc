#include "client/store/repair/metadata_writer.h"

#include <optional>
#include <utility>

#include "base/status.h"
#include "kernels/profile.h"

namespace kerf::agent {

absl::StatusOr<std::unique_ptr<MetadataWriter>> MetadataWriter::Make(const Store& store,
                                                                     ChunkReader& reader,
                                                                     PackWriter& packs,
                                                                     const DigestSet& distrusted) {
  KERF_ASSIGN_OR_RETURN(const Profile profile, ParseProfile(store.config().metadata_profile()));
  return std::unique_ptr<MetadataWriter>(
      new MetadataWriter(store, MakeChunker(profile), reader, packs, distrusted));
}

MetadataWriter::MetadataWriter(const Store& store, std::unique_ptr<Chunker> chunker,
                               ChunkReader& reader, PackWriter& packs, const DigestSet& distrusted)
    : digest_algorithm_(store.digest_algorithm()),
      chunker_(std::move(chunker)),
      cutter_(*chunker_),
      reader_(reader),
      packs_(packs),
      distrusted_(distrusted) {}

absl::Status MetadataWriter::Append(std::span<const std::uint8_t> bytes) {
  while (!bytes.empty()) {
    bytes = bytes.subspan(cutter_.Append(bytes));
    KERF_RETURN_IF_ERROR(TakeChunks());
  }
  return absl::OkStatus();
}

absl::Status MetadataWriter::Finish() {
  cutter_.Finish();
  return TakeChunks();
}

absl::Status MetadataWriter::TakeChunks() {
  while (const std::optional<StreamChunk> chunk = cutter_.Next()) {
    const ChunkRef ref = {Fingerprint(digest_algorithm_, chunk->bytes),
                          static_cast<std::uint32_t>(chunk->bytes.size())};
    recipe_.push_back(ref);
    // One whose block is damaged is listed, and of no use.
    const bool is_stored = written_.contains(ref.digest) ||
                           (!distrusted_.contains(ref.digest) && reader_.Read(ref).ok());
    if (is_stored) continue;
    written_.insert(ref.digest);
    ++new_chunk_count_;
    new_bytes_ += ref.length_bytes;
    KERF_RETURN_IF_ERROR(packs_.Add(ref.digest, chunk->bytes));
  }
  return absl::OkStatus();
}

}  // namespace kerf::agent
