// The chunks and hashes of a stream's files: a StreamCutter for all of them, so that a file of a
// few bytes costs a few bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kernels/chunker.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/fingerprint/xxh3.h"
#include "kernels/rapid/rapid_cutter.h"
#include "kernels/rapid/upload_profile.h"
#include "kernels/stream_cutter.h"
#include "server/session/frame.h"
#include "server/session/session.h"

namespace kerf {

// A chunk that was cut and not yet answered.
struct CutChunk {
  std::uint64_t file_number = 0;
  std::uint64_t end_offset = 0;
  // Valid until the next CutBuffer::Compact or Park.
  Bytes bytes;
  // If it was needed in order to cut.
  std::optional<Digest> digest;
  // The file ended here; it may have ended behind a chunk that was answered before that was known.
  bool ends_file = false;
};

// What is needed to go where hints say that a file goes on.
struct HintedCutting {
  // With a criterion the cuts depend on what is known, else they are those of the rule.
  UploadProfile profile;
  DigestAlgorithm digest_algorithm = DigestAlgorithm::kBlake3;
  // Not owned.
  HintSource* hints = nullptr;
};

// Not thread-safe. The buffer comes with Append and goes with Park.
class CutBuffer {
 public:
  // `capacity_bytes` is at least twice the chunker's longest chunk. With hints less is scanned
  // (kernels/rapid).
  CutBuffer(const Chunker* chunker, std::size_t capacity_bytes, BufferSource* buffers,
            const std::optional<HintedCutting>& hinted = std::nullopt);
  CutBuffer(const CutBuffer&) = delete;
  CutBuffer& operator=(const CutBuffer&) = delete;

  void BeginFile(std::uint64_t file_number, std::uint64_t start_offset);

  // Copies a prefix of `bytes` behind the file's data and returns its length, 0 if the buffer is
  // full: then Cut, answer the chunks, and Compact. This is the one copy between the transport's
  // slices and the kernels.
  std::size_t Append(Bytes bytes);
  // The same for who reads in place: where the next bytes go, nothing if the buffer is full; and
  // how many of them have come.
  std::span<std::uint8_t> Room() { return cutter_.SpanBehind(); }
  void Grow(std::size_t count) { cutter_.Commit(count); }

  // Cuts what is certain: as long as the longest chunk fits before the end of what has arrived, or
  // twice the longest one where hints are followed.
  void Cut();

  // What is not cut yet. Not with hints.
  Bytes uncut() const { return cutter_.pending(); }
  // These are cuts of the first of it.
  void Take(const cuda::PieceCuts& cuts);

  // `hint` says what followed the last chunk that was cut: the file is cut along it from here on,
  // if it says anything. Only if wants_hint().
  void FollowHint(const Hint& hint);
  // Whether it would be of use to know what followed the last chunk: that is of a file that goes
  // on.
  bool wants_hint() const {
    return rapid_ != nullptr && in_file_ && !is_at_begin_ && !follows_hints_;
  }
  bool follows_hints() const { return follows_hints_; }

  // Cuts the rest of the file. Returns the hash of all that was appended since BeginFile.
  ContentHash EndFile();

  // Forgets the rest of the file.
  void AbandonFile();

  std::span<const CutChunk> chunks() const { return chunks_; }
  // The chunks are answered.
  void ClearChunks();

  // Moves the uncut rest to the front. Only without unanswered chunks.
  void Compact();

  // Gives the buffer back and keeps only the uncut rest, which is shorter than one chunk, or than
  // two where hints are followed; only without unanswered chunks. The next Append takes a buffer
  // again.
  void Park();

  std::size_t capacity_bytes() const { return cutter_.capacity_bytes(); }
  // Held now.
  std::size_t memory_bytes() const { return cutter_.memory_bytes(); }
  // The same once it has a buffer: chunks that were cut where they were parked stay beside it until
  // they are answered.
  std::size_t bytes_with_buffer() const { return cutter_.bytes_with_buffer(); }
  std::size_t uncut_bytes() const { return cutter_.pending_bytes(); }
  // Of everything that was cut; without hints all of it was scanned.
  RapidCounters rapid_counters() const;

 private:
  // After so many chunks in a row of which the hints knew nothing, the file is cut without them:
  // many chunks at a time are fingerprinted faster.
  static constexpr std::size_t kMaxUnknownChunks = 16;
  // Room for so many is kept by a stream that waits.
  static constexpr std::size_t kKeptChunks = 64;

  // What the cutter has given; its digest if that is known.
  void AddChunk(const StreamChunk& chunk, const std::optional<Digest>& digest = std::nullopt);
  void AddPlainChunk(const StreamChunk& chunk, const std::optional<Digest>& digest = std::nullopt);
  // Cuts what is certain, or all of it at the end of the file.
  void CutAlongHints(bool is_end);
  void LookForHint();
  void LeaveHints();
  void HashUpToEnd();

  // Null: without hints.
  HintSource* const hints_;
  const DigestAlgorithm digest_algorithm_;
  const std::size_t max_chunk_bytes_;
  StreamCutter cutter_;
  // Of the file in hand, hashed up to here (StreamCutter::end_position).
  std::size_t unhashed_ = 0;

  std::unique_ptr<RapidCutter> rapid_;
  bool follows_hints_ = false;
  std::uint64_t plainly_cut_bytes_ = 0;
  std::size_t unknown_in_a_row_ = 0;
  std::vector<RapidChunk> hinted_chunks_;

  std::uint64_t file_number_ = 0;
  bool in_file_ = false;
  bool is_at_begin_ = false;
  // Whether hash_ holds a part of the file; a file that lies whole in the buffer needs no state.
  bool hash_begun_ = false;
  std::unique_ptr<Xxh3Stream> hash_;
  std::vector<CutChunk> chunks_;
};

}  // namespace kerf
