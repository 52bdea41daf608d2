// What the marks of a rule with two masks are good for: K1 tests what both masks ask for, which is
// half the work for every byte; here the few positions that are left are hashed again.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/kernel/walks.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

// K2, behind EmitCandidates. A thread a node; of rules that have ClassesOf.
template <class Rule>
struct ClassifyCandidates {
  using Args = RuleArgs<Rule>;
  struct Shared {
    typename Rule::Tables tables;
  };
  struct Local {};
  static constexpr unsigned kBlockThreads = 128;
  static constexpr int kPhaseCount = 1;

  KERF_DEVICE_CODE static unsigned TileCount(const Args& args) {
    return CeilDivide(NodeCount(args.selection), kBlockThreads);
  }
  KERF_DEVICE_CODE static void Begin(const Args& args, Shared& shared, unsigned thread) {
    args.rule.Load(shared.tables, thread, kBlockThreads);
  }

  template <int kPhase>
  KERF_DEVICE_CODE static void Phase(const Args& args, Shared& shared, Local&, unsigned tile,
                                     unsigned thread) {
    const SelectionArgs& selection = args.selection;
    const std::uint32_t node = tile * kBlockThreads + thread;
    // A piece's beginning is no candidate.
    if (node >= NodeCount(selection) || node == FirstNode(selection, selection.node_pieces[node])) {
      return;
    }
    const std::uint32_t position = PositionOf(selection.candidates[node]);
    selection.candidates[node] =
        Candidate(position, args.rule.ClassesOf(selection, shared.tables, position));
  }
};

}  // namespace kerf::cuda
