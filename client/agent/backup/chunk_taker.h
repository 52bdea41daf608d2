// What becomes of the chunks that a server answers: between the lanes and who keeps the chunks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// One chunk as the server answered it.
struct AnsweredChunk {
  Digest digest;
  std::uint32_t length_bytes = 0;
  v1::Verdict verdict = v1::VERDICT_NEW;
  // Unless verdict is VERDICT_NEW.
  std::string locator;
  // The digest was made here, of these bytes, and not by the server.
  bool is_cut_here = false;
};

// The way back to the server. Thread-safe.
class ChunkLane {
 public:
  virtual ~ChunkLane() = default;
  // All of it is durable. Chunks of `resolved_chunks` answers are no longer pending with it.
  virtual void Commit(std::span<const v1::CommitEntry> entries, std::uint64_t resolved_chunks) = 0;
  // What the server called duplicates at these places, and the store does not hold.
  virtual void ReportStale(std::span<const v1::CommitEntry> entries) = 0;
};

// Keeps the chunks that are answered. Called on the answer threads of all lanes at once.
class ChunkTaker {
 public:
  virtual ~ChunkTaker() = default;
  // `bytes` are those of the chunk and valid during the call only. A status that is not OK ends the
  // lane with it; but if it is a wrong answer (client/cpp/failed_call.h), that is of this chunk, of
  // which nothing was kept, and the lane asks once more. What is thrown for want of memory ends the
  // lane, too (client/cpp/out_of_memory.h): whoever may leave half done what other lanes see throws
  // nothing.
  virtual absl::Status Take(ChunkLane& lane, const AnsweredChunk& chunk,
                            std::span<const std::uint8_t> bytes) = 0;
};

}  // namespace kerf::agent
