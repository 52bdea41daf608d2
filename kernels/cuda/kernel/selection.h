// Cuts of a batch from its marks, on the device: the launches one after another, and what memory
// they need. Why the cuts are those of the sequential rule: SELECTION.md.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/candidates.h"
#include "kernels/cuda/kernel/classes.h"
#include "kernels/cuda/kernel/long_walks.h"
#include "kernels/cuda/kernel/prefix_sums.h"
#include "kernels/cuda/kernel/ranking.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/kernel/walks.h"

namespace kerf::cuda {

// What the memory of a selection is made for; a batch may be smaller.
struct SelectionLimits {
  // A multiple of kBatchAlignmentBytes, at most kMaxBatchBytes.
  std::size_t batch_bytes;
  std::size_t piece_count;
  // No chunk is smaller, but a stream's last. Not 0.
  std::size_t min_chunk_bytes;
  // As in SelectionArgs; at least 1, for numbers of nodes to fit.
  std::uint32_t candidate_bytes_log2;
};

// Every piece has a share of the candidates, a few more, and its beginning.
constexpr std::size_t MaxNodeCount(const SelectionLimits& limits) {
  return (limits.batch_bytes >> limits.candidate_bytes_log2) +
         limits.piece_count * (kSpareCandidates + 1);
}

constexpr std::size_t MaxChunkCount(const SelectionLimits& limits) {
  return limits.batch_bytes / limits.min_chunk_bytes + limits.piece_count;
}

constexpr std::size_t RowCount(std::size_t batch_bytes) {
  return (batch_bytes + kRowPositions - 1) / kRowPositions;
}

// Words of a mark vector.
constexpr std::size_t MarkWordCount(std::size_t batch_bytes) {
  return RowCount(batch_bytes) * (kRowPositions / 32);
}

// Gives the kernels their memory and the host their output: take.operator()<T>(count) is called for
// each array, in one order for the same limits. Input, first_bytes and behind_bytes are left to the
// caller, as is blocks_done. No array needs to be set to anything.
template <class Take>
constexpr SelectionArgs TakeSelectionMemory(const SelectionLimits& limits, Take& take) {
  const auto sums = [&take](std::size_t count) {
    return PrefixSums {
      take.template operator()<std::uint32_t>(count),
      take.template operator()<std::uint32_t>(ScanTotalCount(count))
    };
  };
  const std::size_t node_count = MaxNodeCount(limits);
  SelectionArgs args{};
  args.candidate_bytes_log2 = limits.candidate_bytes_log2;
  args.most_rows = static_cast<std::uint32_t>(RowCount(limits.batch_bytes));
  args.most_pieces = static_cast<std::uint32_t>(limits.piece_count);
  args.most_nodes = static_cast<std::uint32_t>(node_count);
  args.row_marks = sums(RowCount(limits.batch_bytes));
  args.piece_nodes = sums(limits.piece_count);
  args.piece_chunks = sums(limits.piece_count);
  args.node_count = take.template operator()<std::uint32_t>(1);
  args.marks_before = take.template operator()<std::uint32_t>(limits.piece_count);
  args.candidates = take.template operator()<std::uint32_t>(node_count);
  args.node_pieces = take.template operator()<std::uint32_t>(node_count);
  args.edges = take.template operator()<Exit>(node_count);
  args.exits = take.template operator()<Exit>(node_count);
  args.ranks = take.template operator()<std::uint32_t>(node_count);
  args.long_nodes = take.template operator()<std::uint32_t>(node_count);
  args.long_node_count = take.template operator()<std::uint32_t>(1);
  args.long_node_counts = take.template operator()<std::uint32_t>(limits.piece_count);
  args.chunks = take.template operator()<Chunk>(MaxChunkCount(limits));
  args.chunk_count = take.template operator()<std::uint32_t>(1);
  args.cuts = take.template operator()<SelectedCuts>(limits.piece_count);
  return args;
}

// The positions whose marks count, of the rule that is given to the kernels with `args`; none where
// chunks are so small that they never see one.
template <class Rule>
void SetCountedPositions(const Rule& rule, SelectionArgs& args) {
  const bool is_any_used = rule.FirstMarkBytes() + rule.BehindMarkBytes() < rule.max_bytes;
  args.first_bytes =
      is_any_used ? rule.FirstMarkBytes() : static_cast<std::uint32_t>(kMaxBatchBytes - 1);
  args.behind_bytes = rule.BehindMarkBytes();
}

// Calls launcher.Launch<Kernel>(args) for one kernel of K2 after another, each of which must see
// what the one before wrote.
template <class Rule, class Launcher>
void LaunchCandidates(const RuleArgs<Rule>& args, Launcher& launcher) {
  const SelectionArgs& selection = args.selection;
  launcher.template Launch<Scan<RowMarks>>(selection);
  launcher.template Launch<Scan<PieceNodes>>(selection);
  launcher.template Launch<EmitCandidates>(selection);
  if constexpr (requires { args.rule.HasClasses(); }) {
    if (args.rule.HasClasses()) launcher.template Launch<ClassifyCandidates<Rule>>(args);
  }
}

// So for K3 to K5, behind K2.
template <class Rule, class Launcher>
void LaunchCuts(const RuleArgs<Rule>& args, Launcher& launcher) {
  const SelectionArgs& selection = args.selection;
  launcher.template Launch<Edges<Rule>>(args);
  launcher.template Launch<LongWalks<Rule, false>>(args);
  launcher.template Launch<RankTiles<false>>(selection);
  launcher.template Launch<Scan<PieceChunks>>(selection);
  launcher.template Launch<RankTiles<true>>(selection);
  launcher.template Launch<EmitChunks<Rule>>(args);
  launcher.template Launch<LongWalks<Rule, true>>(args);
}

}  // namespace kerf::cuda
