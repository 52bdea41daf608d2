// The chunks of a stream's files where the client has cut them: a CutBuffer without bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/recipe_hash.h"
#include "server/session/session.h"

namespace kerf {

// A chunk that was named and not yet answered.
struct NamedChunk {
  std::uint64_t file_number = 0;
  std::uint64_t end_offset = 0;
  std::uint32_t length_bytes = 0;
};

// What it is given the session has checked (Session::AddDigests). Not thread-safe.
class NamedChunks {
 public:
  explicit NamedChunks(DigestAlgorithm algorithm) : digest_bytes_(DigestSizeBytes(algorithm)) {}

  void BeginFile(std::uint64_t file_number, std::uint64_t start_offset);
  // Takes at most `max_count` chunks of the frame, from the `first` one on; returns how many.
  std::size_t Append(const v1::ChunkDigests& named, std::size_t first, std::size_t max_count);
  // The hash of what was named since BeginFile.
  ContentHash EndFile() const { return hash_.Value(); }

  // The unanswered ones.
  std::span<const NamedChunk> chunks() const { return chunks_; }
  // Theirs, which are gone from here then.
  std::vector<Digest> TakeDigests();
  // They are answered.
  void ClearChunks() { chunks_.clear(); }
  // Whoever waits keeps no room for them. Only without unanswered chunks.
  void Park();

  std::size_t memory_bytes() const {
    return chunks_.capacity() * sizeof(NamedChunk) + digests_.capacity() * sizeof(Digest);
  }

 private:
  const std::size_t digest_bytes_;
  std::uint64_t file_number_ = 0;
  std::uint64_t end_offset_ = 0;
  RecipeHash hash_;
  std::vector<NamedChunk> chunks_;
  std::vector<Digest> digests_;
};

}  // namespace kerf
