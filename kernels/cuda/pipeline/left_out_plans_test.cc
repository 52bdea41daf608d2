// Devices that cannot run some kernels: whatever they can run they are given, and the rest is cut
// by the CPU, with the same chunks.
#include "kernels/cuda/pipeline/left_out_plans.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/launch/portable.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/cut_and_wait.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/pipeline/small_options.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/cuda/plugin/kernel_list.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// One of each algorithm.
constexpr std::string_view kProfiles[] = {
    "gear:min=256,avg=512,max=2048",  "fastcdc:min=256,avg=1024,max=4096,level=2",
    "crc:min=256,bits=9,max=3000",    "rabin:min=300,avg=1024,max=5000",
    "maxp-local:window=300,max=5000", "mincdc:min=256,max=1500",
    "maxcdc:min=300,max=2000",        "fastcdc2020:min=256,avg=1024,max=4096,level=0",
};
constexpr DigestAlgorithm kDigests[] = {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256,
                                        DigestAlgorithm::kXxh3_128};
// What the smallest GPUs have for a block: compute capability 7.5, and 8.6, 8.9 and 12.
constexpr std::size_t kSmallestSharedBytes[] = {64 << 10, 99 << 10};

std::shared_ptr<const BatchPlan> PlanOf(std::string_view profile, DigestAlgorithm algorithm) {
  auto plan = MakeBatchPlan(*ParseProfile(profile), algorithm);
  EXPECT_NE(plan, nullptr) << profile;
  return plan;
}

struct Started {
  const EmulatedDevice* emulated;
  const FaultyDevice* faulty;
  absl::StatusOr<std::unique_ptr<GpuCutter>> cutter;
};

Started StartOn(std::size_t shared_bytes, Fault fault = {}) {
  auto emulated = std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{
      .kernels = EmulatedKernelList(), .seed = TestSeed(), .shared_bytes = shared_bytes});
  const EmulatedDevice* const inner = emulated.get();
  auto faulty = std::make_unique<FaultyDevice>(std::move(emulated), fault);
  const FaultyDevice* const outer = faulty.get();
  return {inner, outer, GpuCutter::Start(std::move(faulty), SmallOptions())};
}

class Nobody final : public PieceTaker {
 public:
  void OnPiece(PieceOutcome) override {}
};

// What the cutter has to say and do of every plan, of which it leaves out those of `is_left_out`.
template <class IsLeftOut>
void ExpectAllButSome(GpuCutter& cutter, IsLeftOut is_left_out) {
  const auto bytes = MakeInput("random", TestSeed(), 40'000);
  std::uint64_t given_count = 0;
  for (const std::string_view profile : kProfiles) {
    for (const DigestAlgorithm digest : kDigests) {
      SCOPED_TRACE(Cat(profile, " with ", DigestAlgorithmName(digest)));
      const auto plan = MakeBatchPlan(*ParseProfile(profile), digest);
      // What no device is given.
      if (plan == nullptr) continue;
      EXPECT_EQ(cutter.left_out().Has(*plan), is_left_out(*plan));
      if (is_left_out(*plan)) {
        EXPECT_FALSE(cutter.TryCut(plan, bytes, true, std::make_shared<Nobody>()));
      } else {
        ++given_count;
      }
      EXPECT_TRUE(CutAndWait(cutter, plan, bytes, true).chunks ==
                  CutPieceOnCpu(*plan->chunker, digest, bytes, true).chunks);
    }
  }
  const GpuCounters counters = cutter.counters();
  EXPECT_EQ(counters.piece_count, given_count);
  EXPECT_EQ(counters.given_up_piece_count + counters.lost_piece_count, 0u);
  EXPECT_TRUE(cutter.health().ok()) << cutter.health();
}

// Of which the tables for marks take 64 KiB.
bool HasTable(const BatchPlan& plan) {
  switch (plan.profile.algorithm) {
    case Algorithm::kGear:
    case Algorithm::kFastCdc:
    case Algorithm::kFastCdc2020:
    case Algorithm::kCrc:
    case Algorithm::kRabin:
      return true;
    default:
      return false;
  }
}

// As kernels/cuda/README.md says it.
TEST(LeftOutPlansTest, WhatTheSmallestGpusLeaveOut) {
  for (const std::size_t shared_bytes : kSmallestSharedBytes) {
    const Started started = StartOn(shared_bytes);
    ASSERT_TRUE(started.cutter.ok()) << started.cutter.status();
    ExpectAllButSome(**started.cutter, [&](const BatchPlan& plan) {
      return plan.profile.algorithm == Algorithm::kMaxCdc ||
             (shared_bytes == 64 << 10 && plan.digest_algorithm == DigestAlgorithm::kSha256);
    });
  }
}

// A graph that could not be recorded is none that is kept.
TEST(LeftOutPlansTest, WhatNeedsMoreThanThereIsIsLeftToTheCpu) {
  const Started started = StartOn(48 << 10);
  ASSERT_TRUE(started.cutter.ok()) << started.cutter.status();
  GpuCutter& cutter = **started.cutter;
  EXPECT_EQ(started.emulated->graph_count(), 0u);
  const std::string text = cutter.left_out().Text();
  EXPECT_THAT(text, HasSubstr("rabin"));
  EXPECT_THAT(text, EndsWith(" bytes of shared memory, and this GPU has 49152"));
  EXPECT_FALSE(cutter.left_out().Has(*PlanOf(kProfiles[4], DigestAlgorithm::kBlake3)));
  ExpectAllButSome(
      cutter, [&](const BatchPlan& plan) { return HasTable(plan) || cutter.left_out().Has(plan); });
}

TEST(LeftOutPlansTest, AKernelThatIsRefusedCostsItsPlansAlone) {
  const auto refusing = [](std::size_t kernel) {
    return StartOn(kMaxSharedBytes, {.kind = Fault::Kind::kRefuses, .kernel = kernel});
  };
  {
    const Started started = refusing(KernelList::NumberOf<RabinMarks>());
    ASSERT_TRUE(started.cutter.ok()) << started.cutter.status();
    EXPECT_EQ((*started.cutter)->left_out().Text(), "rabin: the test refuses this kernel");
    ExpectAllButSome(**started.cutter, [](const BatchPlan& plan) {
      return plan.profile.algorithm == Algorithm::kRabin;
    });
    EXPECT_EQ(started.faulty->late_call_count(), 0u);
  }
  {
    // The last but one that is launched: all before it are recorded in vain.
    const Started started = refusing(KernelList::NumberOf<Sha256Chunks>());
    ASSERT_TRUE(started.cutter.ok()) << started.cutter.status();
    EXPECT_THAT((*started.cutter)->left_out().Text(),
                AllOf(HasSubstr("crc with sha256"), HasSubstr("mincdc with sha256"),
                      Not(HasSubstr("blake3")), EndsWith(": the test refuses this kernel")));
    ExpectAllButSome(**started.cutter, [](const BatchPlan& plan) {
      return plan.digest_algorithm == DigestAlgorithm::kSha256;
    });
  }
  const Started none = refusing(KernelList::NumberOf<EmitCandidates>());
  EXPECT_TRUE(absl::IsUnavailable(none.cutter.status()));
  EXPECT_THAT(std::string(none.cutter.status().message()),
              StartsWith("emulator: it can run nothing: fastcdc, gear, "));
}

// By another plan than fastcdc's.
TEST(LeftOutPlansTest, TheSpeedIsMeasuredByWhatRuns) {
  auto device = std::make_unique<FaultyDevice>(
      std::make_unique<EmulatedDevice>(
          EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = TestSeed()}),
      Fault{.kind = Fault::Kind::kRefuses, .kernel = KernelList::NumberOf<GearMarks>()});
  GpuCutterOptions options = SmallOptions();
  options.min_piece_bytes.reset();
  const auto cutter = GpuCutter::Start(std::move(device), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  // The emulator is slower than the CPU, always.
  EXPECT_EQ((*cutter)->min_piece_bytes(), std::numeric_limits<std::size_t>::max());
}

// What runs and is wrong is another matter.
TEST(LeftOutPlansTest, OneWrongPlanLosesTheDevice) {
  const Started counting = StartOn(kMaxSharedBytes);
  ASSERT_TRUE(counting.cutter.ok());
  const std::uint64_t call_count = counting.faulty->call_count();
  for (const std::uint64_t eighths : {1, 4, 7}) {
    const Started started = StartOn(
        kMaxSharedBytes, {.kind = Fault::Kind::kWrongBits, .call = call_count * eighths / 8});
    EXPECT_TRUE(absl::IsUnavailable(started.cutter.status())) << started.cutter.status();
  }
}

TEST(LeftOutPlansTest, ASlotIsWellBehindARefusal) {
  EmulatedDevice device(
      {.kernels = EmulatedKernelList(), .seed = TestSeed(), .shared_bytes = 48 << 10});
  const auto slot = *BatchSlot::Make(device, {.batch_bytes = 64 << 10, .piece_count = 4});
  const auto bytes = MakeInput("random", TestSeed(), 30'000);
  std::copy(bytes.begin(), bytes.end(), slot->bytes().begin());
  const SlotPiece piece{0, 30'000, true};
  const auto wait = [&] {
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done) is_done = slot->IsDone();
    ASSERT_TRUE(is_done.ok()) << is_done.status();
  };
  const auto runs = PlanOf("maxp-local:window=300,max=5000", DigestAlgorithm::kBlake3);
  for (int round = 0; round < 3; ++round) {
    const absl::Status refused =
        slot->Start(PlanOf(kProfiles[0], DigestAlgorithm::kBlake3), {&piece, 1});
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    wait();
    ASSERT_TRUE(slot->Start(runs, {&piece, 1}).ok());
    wait();
    PieceCuts cuts;
    ASSERT_TRUE(slot->TakeCuts(0, cuts));
    EXPECT_TRUE(cuts.chunks ==
                CutPieceOnCpu(*runs->chunker, runs->digest_algorithm, bytes, true).chunks);
  }
}

TEST(LeftOutPlansTest, TextHasEachReasonOnce) {
  LeftOutPlans left_out;
  EXPECT_TRUE(left_out.is_empty());
  EXPECT_EQ(left_out.Text(), "");
  for (const DigestAlgorithm digest : kDigests) left_out.Add(*PlanOf("rabin-8k", digest), "a");
  EXPECT_EQ(left_out.Text(), "rabin: a");
  left_out.Add(*PlanOf("gear-8k", DigestAlgorithm::kSha256), "b");
  left_out.Add(*PlanOf("crc-8k", DigestAlgorithm::kBlake3), "a");
  left_out.Add(*PlanOf("crc-8k", DigestAlgorithm::kSha256), "b");
  EXPECT_EQ(left_out.Text(), "rabin, crc with blake3: a; gear with sha256, crc with sha256: b");
  // With XXH3 it is the CPU's anyway.
  for (const DigestAlgorithm digest : {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256}) {
    left_out.Add(*PlanOf("maxcdc-8k", digest), "c");
  }
  EXPECT_THAT(left_out.Text(), EndsWith("; maxcdc: c"));
  // Whatever else the profile says.
  EXPECT_TRUE(left_out.Has(*PlanOf("rabin:min=300,avg=1024,max=5000", DigestAlgorithm::kBlake3)));
  EXPECT_FALSE(left_out.Has(*PlanOf("gear-8k", DigestAlgorithm::kBlake3)));
  EXPECT_FALSE(left_out.Has(*PlanOf("fastcdc-8k", DigestAlgorithm::kSha256)));
}

}  // namespace
}  // namespace kerf::cuda
