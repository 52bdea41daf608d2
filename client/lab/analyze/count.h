// How much of the data is there more than once: what deduplication saves.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include "client/lab/analyze/corpus.h"
#include "kernels/chunker.h"

namespace kerf::agent::analyze {

// How large chunks are; every chunk counts, repeated ones as well.
struct SizeDistribution {
  std::uint32_t min_bytes = 0;
  std::uint32_t p5_bytes = 0;
  std::uint32_t p25_bytes = 0;
  std::uint32_t p50_bytes = 0;
  std::uint32_t p75_bytes = 0;
  std::uint32_t p95_bytes = 0;
  std::uint32_t max_bytes = 0;

  // Chunks of at most `up_to_bytes` and more than the step before; powers of two, from the first
  // step that has chunks to the last.
  struct Step {
    std::uint32_t up_to_bytes = 0;
    std::uint64_t chunk_count = 0;
  };
  std::vector<Step> histogram;
};

struct CountFigures {
  std::uint64_t total_bytes = 0;
  std::uint64_t unique_bytes = 0;
  std::uint64_t chunk_count = 0;
  std::uint64_t unique_chunk_count = 0;
  SizeDistribution sizes;
  // Of each part: bytes in chunks that no earlier part and nothing before it in this part has.
  std::vector<std::uint64_t> new_bytes_by_part;

  double average_bytes() const {
    return chunk_count == 0 ? 0
                            : static_cast<double>(total_bytes) / static_cast<double>(chunk_count);
  }
  // The share of all bytes that need not be stored, 0 to 1.
  double savings() const {
    return total_bytes == 0
               ? 0
               : 1 - static_cast<double>(unique_bytes) / static_cast<double>(total_bytes);
  }
};

// Cuts every file and counts. Two chunks are the same if their XXH3-128 is: fast, and with 2^32
// chunks two different ones agree with a chance of 2^-65; nothing is stored by it. Takes 24 bytes
// or so for each unique chunk and 4 for each chunk. Adds to `done_bytes` as it goes. None if
// `cancelled` became true.
std::optional<CountFigures> CountUnique(const Chunker& chunker, const Corpus& corpus,
                                        const std::atomic<bool>& cancelled,
                                        std::atomic<std::uint64_t>& done_bytes);

// The same with whole files in the place of chunks.
CountFigures CountWholeFiles(const Corpus& corpus);

// Of sizes in any order, which it sorts.
SizeDistribution DistributionOf(std::vector<std::uint32_t>& sizes);

}  // namespace kerf::agent::analyze
