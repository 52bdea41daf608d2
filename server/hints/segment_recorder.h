// Makes segments of what a stream has cut, for the next version of the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/rapid/cut_run.h"
#include "server/hints/hint_cache.h"

namespace kerf {

// Told of all chunks of a stream, file by file, and gives segments to the cache once their chunks
// are committed. Only for chunks that were cut as the scope's profile says, that is without a
// criterion by its rule or in exact mode, with digests that this process has computed: it seals
// them. Not thread-safe.
//
// A segment ends where its chunks say so, so that the segments of two versions of a file are the
// same again soon behind a change, and only those around it are written anew. It begins with the
// last chunk of the one before: whoever reaches the end of one is in the next.
class SegmentRecorder {
 public:
  // A segment ends behind a chunk that IsSegmentEnd, once it has this many.
  static constexpr std::size_t kMinSegmentChunks = 512;

  // Holds `max_held_bytes` of segments that wait for their commit; more are not kept.
  SegmentRecorder(std::shared_ptr<HintCache> cache, std::shared_ptr<const HintScope> scope,
                  std::size_t max_held_bytes);
  SegmentRecorder(const SegmentRecorder&) = delete;
  SegmentRecorder& operator=(const SegmentRecorder&) = delete;

  // The numbers of files that are not done differ. `start_offset`: where the first chunk begins.
  void BeginFile(std::uint64_t file_number, std::uint64_t start_offset);
  // The next chunk of the file.
  void Add(const RunChunk& chunk);
  // The last chunk was ended by the end of the file.
  void EndFile();
  // No more will come of the file; what it has may still be committed.
  void AbandonFile();

  // All of the file's chunks that end up to `durable_offset` are committed, or were in the index
  // when they were answered. Segments that are complete up to there are given to the cache.
  void Committed(std::uint64_t file_number, std::uint64_t durable_offset);
  // The file is done, all of it committed.
  void Done(std::uint64_t file_number);

  // Held now, from above.
  std::size_t memory_bytes() const;
  // Segments that were not kept for want of room.
  std::uint64_t dropped_count() const { return dropped_count_; }

 private:
  // Complete, and its chunks perhaps not committed.
  struct Waiting {
    std::uint64_t end_offset = 0;
    HintCache::NewSegment segment;
  };
  struct File {
    std::uint64_t durable_offset = 0;
    std::vector<Waiting> waiting;
  };
  // Ended; which one comes next is not known yet.
  struct Closed {
    std::uint64_t end_offset = 0;
    SegmentId id;
    std::vector<RunChunk> chunks;
    bool ended_by_eof = false;
    bool begins_file = false;
    std::optional<HintCache::Known> known;
    // Empty if it is known.
    std::vector<std::uint8_t> sealed_run;
  };

  void CloseOpen(bool ended_by_eof);
  // The last closed one is followed by `next`.
  void FinishClosed(const std::optional<SegmentId>& next);
  void Erase(absl::flat_hash_map<std::uint64_t, File>::iterator file);
  void Release(std::uint64_t durable_offset, std::vector<Waiting>& waiting);
  CutRun RunOf(std::vector<RunChunk> chunks, bool ended_by_eof) const;
  std::vector<std::uint8_t> Seal(const CutRun& run) const;
  static std::size_t CostOf(const Waiting& waiting);

  const std::shared_ptr<HintCache> cache_;
  const std::shared_ptr<const HintScope> scope_;
  const std::size_t max_held_bytes_;

  bool in_file_ = false;
  std::uint64_t file_number_ = 0;
  std::uint64_t end_offset_ = 0;
  bool is_first_segment_ = true;
  std::vector<RunChunk> open_;
  std::optional<Closed> closed_;

  // Those with something that waits, and the one in hand.
  absl::flat_hash_map<std::uint64_t, File> files_;
  std::size_t waiting_bytes_ = 0;
  std::uint64_t dropped_count_ = 0;
};

// Whether a segment may end with the chunk: 1 of 256, by the digest alone.
bool IsSegmentEnd(const Digest& digest);

}  // namespace kerf
