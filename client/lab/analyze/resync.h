// How soon cuts fall into step again behind an edit: what has to be sent and stored anew after a
// small change.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "client/lab/analyze/corpus.h"
#include "kernels/chunker.h"

namespace kerf::agent::analyze {

enum class EditKind : std::uint8_t { kInsert, kDelete, kOverwrite };

// One byte of the corpus.
struct Edit {
  EditKind kind = EditKind::kInsert;
  // From the start of the corpus; a byte is inserted in front of it.
  std::uint64_t position = 0;
  // What is inserted or written; not the byte that is there.
  std::uint8_t value = 0;
};

// So many edits of each kind, anywhere in the corpus with the same chance. The corpus is not empty.
std::vector<Edit> MakeEdits(const Corpus& corpus, std::uint32_t count_of_each_kind,
                            std::uint64_t seed);

// Bytes in chunks of `after` that are no chunks of `before`.
std::uint64_t ResentBytes(const Chunker& chunker, Bytes before, Bytes after);

struct ResyncFigures {
  std::uint64_t edit_count = 0;
  // Means over the edits of one kind, and over all.
  double insert_bytes = 0;
  double delete_bytes = 0;
  double overwrite_bytes = 0;
  double mean_bytes = 0;
};

// Each edit alone, within its file: eight wanted averages of data in front of it and 56 behind it
// are cut before and after; an algorithm that never falls into step sends all that is behind.
// Zeros if `cancelled` became true.
ResyncFigures MeasureResync(const Chunker& chunker, const Corpus& corpus,
                            const std::vector<Edit>& edits, std::uint64_t wanted_bytes,
                            const std::atomic<bool>& cancelled);

inline constexpr std::uint64_t kChunksBeforeEdit = 8;
inline constexpr std::uint64_t kChunksBehindEdit = 56;

}  // namespace kerf::agent::analyze
