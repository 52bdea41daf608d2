// What the CPU makes of a GPU's candidates: the chunks of the CPU alone, of any bytes; and of wrong
// candidates whatever they say, within the piece.
#include "kernels/cuda/pipeline/host_selection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/kernel/selection_args.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/testing/guarded_bytes.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

// One mask, two, two that are not nested, and marks that hold anywhere.
constexpr std::string_view kProfiles[] = {
    "gear:min=256,avg=1024,max=4096",
    "fastcdc:min=256,avg=1024,max=8192,level=2",
    "fastcdc2020:min=256,avg=2048,max=8192,level=1",
    "crc:min=256,bits=10,max=5000",
    "rabin:min=512,avg=2048,max=9000",
    "maxp-local:window=300,max=3000",
};
constexpr std::size_t kBatchBytes = 128 << 10;

std::vector<std::shared_ptr<const BatchPlan>> AllPlans() {
  std::vector<std::shared_ptr<const BatchPlan>> plans;
  for (const std::string_view profile : kProfiles) {
    plans.push_back(MakeBatchPlan(*ParseProfile(profile), DigestAlgorithm::kXxh3_128));
    EXPECT_NE(plans.back(), nullptr) << profile;
  }
  return plans;
}

std::vector<std::uint8_t> AnyBytes(Random& random, std::size_t size_bytes) {
  const std::vector<InputName> names = NastyInputs();
  const InputName& name = names[random.OneIn(2) ? 1 : random.Below(names.size())];
  return MakeInput(name.kind, name.seed + (name.kind == "random" ? random.Next() : 0), size_bytes);
}

void ExpectEqual(const PieceCuts& cuts, const BatchPlan& plan, std::span<const std::uint8_t> bytes,
                 bool is_end) {
  EXPECT_EQ(cuts.chunks, CutPieceOnCpu(*plan.chunker, plan.digest_algorithm, bytes, is_end).chunks);
}

TEST(HostSelectionTest, IsWhatTheCpuMakesOfThePiece) {
  EmulatedDevice device({.kernels = EmulatedKernelList(), .seed = TestSeed()});
  const auto slot = BatchSlot::Make(device, {.batch_bytes = kBatchBytes, .piece_count = 3});
  ASSERT_TRUE(slot.ok()) << slot.status();
  Random random(TestSeed());
  int selected_count = 0;
  GuardedBytes guarded(kBatchBytes);
  for (const auto& plan : AllPlans()) {
    SCOPED_TRACE(Cat(FormatProfile(plan->profile), ", KERF_TEST_SEED=", TestSeed()));
    // Of about the smallest that has anything to select, the rest of the batch, and nothing.
    const auto first_bytes =
        static_cast<std::uint32_t>(random.Between(0, 2 * plan->profile.max_bytes + 40));
    const std::uint32_t second_offset = (first_bytes + 15) / 16 * 16;
    const std::vector<SlotPiece> pieces = {
        {0, first_bytes, random.OneIn(2)},
        {second_offset, static_cast<std::uint32_t>(kBatchBytes) - second_offset, random.OneIn(2)},
        {static_cast<std::uint32_t>(kBatchBytes), 0, true}};
    for (const SlotPiece& piece : pieces) {
      const auto bytes = AnyBytes(random, piece.size_bytes);
      std::copy(bytes.begin(), bytes.end(), (*slot)->bytes().subspan(piece.offset).begin());
    }
    ASSERT_TRUE((*slot)->Start(plan, pieces).ok());
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done) is_done = (*slot)->IsDone();
    ASSERT_TRUE(is_done.ok()) << is_done.status();
    for (std::size_t index = 0; index < pieces.size(); ++index) {
      std::vector<std::uint32_t> candidates = {7};
      if (!(*slot)->TakeCandidates(index, candidates)) continue;
      ++selected_count;
      const SlotPiece& piece = pieces[index];
      // Elsewhere than in the slot, as a stream has it: at no multiple of anything.
      const auto bytes =
          guarded.CopyToEnd((*slot)->bytes().subspan(piece.offset, piece.size_bytes));
      ExpectEqual(SelectOnHost(*plan, bytes, piece.is_end, candidates), *plan, bytes, piece.is_end);
      PieceCuts cuts;
      ASSERT_TRUE((*slot)->TakeCuts(index, cuts));
      ExpectEqual(cuts, *plan, bytes, piece.is_end);
    }
  }
  // Not all are given up.
  EXPECT_GE(selected_count, static_cast<int>(std::size(kProfiles)));
}

TEST(HostSelectionTest, StaysInThePieceWhateverTheCandidates) {
  Random random(TestSeed() + 1);
  GuardedBytes guarded(kBatchBytes);
  for (const auto& plan : AllPlans()) {
    SCOPED_TRACE(Cat(FormatProfile(plan->profile), ", KERF_TEST_SEED=", TestSeed()));
    for (int round = 0; round < 20; ++round) {
      const auto bytes = guarded.CopyToEnd(AnyBytes(random, random.Below(kBatchBytes)));
      std::vector<std::uint32_t> candidates;
      const std::uint64_t most_apart = random.OneIn(2) ? 4 : 3'000;
      std::uint64_t position = random.Below(most_apart);
      for (; position < bytes.size(); position += random.Between(1, most_apart)) {
        candidates.push_back(Candidate(static_cast<std::uint32_t>(position),
                                       static_cast<std::uint32_t>(random.Below(4))));
      }
      const PieceCuts cuts = SelectOnHost(*plan, bytes, true, candidates);
      EXPECT_EQ(cuts.size_bytes(), bytes.size());
      for (const PieceChunk& chunk : cuts.chunks) {
        ASSERT_GT(chunk.size_bytes, 0u);
        ASSERT_LE(chunk.size_bytes, plan->profile.max_bytes);
      }
    }
  }
}

}  // namespace
}  // namespace kerf::cuda
