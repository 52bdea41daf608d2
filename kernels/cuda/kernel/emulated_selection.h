// The whole selection in the emulator, for tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/selection.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {

// A buffer as a device would have it, and what is in it.
struct Batch {
  // Of a multiple of kBatchAlignmentBytes.
  std::vector<std::uint8_t> bytes;
  std::vector<Piece> pieces;
};

// Of whole rows.
using BatchMarks = std::vector<std::uint32_t>;

struct Selected {
  // What the pieces that need no CPU have.
  std::vector<Chunk> chunks;
  std::vector<SelectedCuts> cuts;

  friend bool operator==(const Selected&, const Selected&);
};

// The marks of the whole buffer, loose ones, as if it were one stream; what is behind it in its
// last row is garbage.
BatchMarks MarkBatch(const Marker& marker, std::span<const std::uint8_t> bytes);

// The marks of K1 of mincdc and maxcdc; what is behind the batch in its last row is garbage.
// `hash` has its table in the host's memory.
template <class Hash>
BatchMarks EmulateExtremeMarks(const Hash& hash, const ExtremeSetting& setting, const Batch& batch,
                               const EmulatorOptions& options);

// `rule` has its table in the host's memory. Each array has memory of its own, of just the size
// that it is said to need and full of garbage, and so have the marks, without those of the last row
// that are behind the batch; bytes are copied between pages that cannot be read. Of both CutRules
// and both ExtremeRules.
template <class Rule>
Selected EmulateSelection(const Rule& rule, std::uint32_t candidate_bytes_log2, const Batch& batch,
                          const BatchMarks& marks, const EmulatorOptions& options);

}  // namespace kerf::cuda
