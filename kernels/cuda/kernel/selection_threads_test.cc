// The selection's kernels with a thread of the system for each of a block's, for the thread
// sanitizer: a barrier that is missing is a race.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "base/test_seed.h"
#include "kernels/cuda/kernel/cut_rule_of.h"
#include "kernels/cuda/kernel/emulated_selection.h"
#include "kernels/reference/gear.h"
#include "kernels/testing/inputs.h"
#include "kernels/twostage/mark.h"

namespace kerf::cuda {
namespace {

TEST(SelectionThreads, AnswerAsInTurns) {
  const Profile profile = *ParseProfile("gear:min=65,avg=256,max=400");
  const GearRule rule = *GearRuleOf(profile);
  const CutRule cut_rule = CutRuleOf(rule, rule.table.data());
  // What has candidates, what has none and takes a block's walk, and what has nothing.
  Batch batch{MakeInput("random", TestSeed(), 5120),
              {{0, 4000, 1}, {5120, 5000, 0}, {10176, 30, 1}}};
  batch.bytes.resize(10240);
  const BatchMarks marks = MarkBatch(*MakeScalarMarker(profile), batch.bytes);
  const std::uint32_t candidate_bytes_log2 = *CandidateBytesLog2(profile);
  const Selected in_turns = EmulateSelection(cut_rule, candidate_bytes_log2, batch, marks, {});
  EXPECT_GT(in_turns.chunks.size(), 20u);
  EXPECT_EQ(EmulateSelection(cut_rule, candidate_bytes_log2, batch, marks,
                             {.block_count = 1, .has_real_threads = true}),
            in_turns);
}

TEST(SelectionThreads, OfExtremesAnswerAsInTurns) {
  const Profile profile = *ParseProfile("mincdc:min=64,max=300");
  const ExtremeSetting setting = ExtremeSettingOf(profile);
  const MinCdcHashes hash = MakeMinCdcHashes();
  const Batch batch{MakeInput("random", TestSeed(), 5120), {{0, 3000, 1}, {3008, 2000, 0}}};
  const auto select = [&](const EmulatorOptions& options) {
    return EmulateSelection(setting.RuleOf(hash), *CandidateBytesLog2(profile), batch,
                            EmulateExtremeMarks(hash, setting, batch, options), options);
  };
  EXPECT_EQ(select({.block_count = 1, .has_real_threads = true}), select({}));
}

// A block has more tiles than one.
TEST(SelectionThreads, MarksOfExtremesAreAsInTurns) {
  const ExtremeSetting setting = ExtremeSettingOf(*ParseProfile("mincdc:min=300,max=3000"));
  const Batch batch{MakeInput("random", TestSeed(), 150016), {{0, 100000, 1}, {100000, 50000, 0}}};
  const auto expect_same = [&](const auto& hash) {
    EXPECT_EQ(
        EmulateExtremeMarks(hash, setting, batch, {.block_count = 1, .has_real_threads = true}),
        EmulateExtremeMarks(hash, setting, batch, {}));
  };
  expect_same(MakeMinCdcHashes());
  expect_same(MakeMaxCdcHashes(kGearTable.data()));
}

}  // namespace
}  // namespace kerf::cuda
