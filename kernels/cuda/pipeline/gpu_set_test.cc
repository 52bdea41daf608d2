// Several GPUs, emulated here: pieces go where there is least to do, and the loss of one is nobody
// else's.
#include "kernels/cuda/pipeline/gpu_set.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/chunker.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/pipeline/small_options.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/cuda/plugin/kernel_list.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

constexpr std::string_view kProfileText = "fastcdc:min=256,avg=1024,max=4096,level=2";

// What a test knows of its devices.
struct Gpus {
  std::vector<const FaultyDevice*> devices;
  // Before the first piece.
  std::vector<std::uint64_t> first_calls;
  std::unique_ptr<GpuSet> set;
};

Gpus MakeGpus(const std::vector<Fault>& faults, const GpuCutterOptions& options) {
  Gpus gpus;
  std::vector<GpuSet::Member> members;
  for (std::size_t index = 0; index < faults.size(); ++index) {
    auto device = std::make_unique<FaultyDevice>(
        std::make_unique<EmulatedDevice>(
            EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = TestSeed() + index}),
        faults[index]);
    gpus.devices.push_back(device.get());
    auto gpu = GpuCutter::Start(std::move(device), options);
    KERF_CHECK(gpu.ok());
    gpus.first_calls.push_back(gpus.devices.back()->call_count());
    members.push_back({static_cast<std::uint32_t>(index), *std::move(gpu)});
  }
  gpus.set = std::make_unique<GpuSet>(std::move(members));
  return gpus;
}

class Waiter final : public PieceTaker {
 public:
  void OnPiece(PieceOutcome outcome) override { outcome_.set_value(outcome); }
  PieceOutcome Wait() { return outcome_.get_future().get(); }

 private:
  std::promise<PieceOutcome> outcome_;
};

// As a stream of kerfd does: what no GPU takes, or is handed back, is cut here.
void ExpectRightCuts(GpuSet& gpus, const std::shared_ptr<const BatchPlan>& plan,
                     std::span<const std::uint8_t> piece) {
  const auto waiter = std::make_shared<Waiter>();
  if (!gpus.TryCut(plan, piece, true, waiter)) return;
  if (waiter->Wait() != PieceOutcome::kCut) return;
  EXPECT_TRUE(waiter->cuts.chunks ==
              CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, piece, true).chunks);
}

void RunStreams(GpuSet& gpus, std::uint64_t seed, int piece_count) {
  const auto plan = gpus.PlanOf(*ParseProfile(kProfileText), DigestAlgorithm::kBlake3);
  ASSERT_NE(plan, nullptr);
  constexpr std::uint64_t kStreams = 4;
  std::vector<std::thread> streams;
  streams.reserve(kStreams);
  for (std::uint64_t stream = 0; stream < kStreams; ++stream) {
    streams.emplace_back([&, stream] {
      Random random(seed + stream);
      for (int piece = 0; piece < piece_count; ++piece) {
        const auto bytes = MakeInput("random", random.Next(), random.Below(30'000));
        ExpectRightCuts(gpus, plan, bytes);
      }
    });
  }
  for (std::thread& stream : streams) stream.join();
}

TEST(GpuSetTest, PiecesGoWhereThereIsLeastToDo) {
  std::atomic<bool> may_go_on{false};
  GpuCutterOptions options = SmallOptions();
  options.audit_period = 0;
  options.idle = [&] {
    while (!may_go_on) std::this_thread::yield();
  };
  const Gpus gpus = MakeGpus({{}, {}, {}}, options);
  const auto plan = gpus.set->PlanOf(*ParseProfile(kProfileText), DigestAlgorithm::kBlake3);
  const auto bytes = MakeInput("random", TestSeed(), 9'000);
  std::vector<std::shared_ptr<Waiter>> waiters;
  const auto send = [&](std::size_t size_bytes) {
    waiters.push_back(std::make_shared<Waiter>());
    ASSERT_TRUE(gpus.set->TryCut(plan, std::span(bytes).first(size_bytes), true, waiters.back()));
  };
  // Nothing comes back: a device thread is held up as soon as it has started a batch.
  send(9'000);
  send(4'000);
  send(4'000);
  send(2'000);
  send(2'000);
  const std::vector<GpuState> states = gpus.set->states();
  EXPECT_EQ(states[0].counters.piece_count, 1u);
  EXPECT_EQ(states[1].counters.piece_count, 2u);
  EXPECT_EQ(states[2].counters.piece_count, 2u);
  EXPECT_GE(states[0].pending_bytes, 9'000u);
  may_go_on = true;
  for (const auto& waiter : waiters) EXPECT_EQ(waiter->Wait(), PieceOutcome::kCut);
  for (const GpuState& state : gpus.set->states()) EXPECT_EQ(state.pending_bytes, 0u);
}

// Where the least busy one has no room, another one may.
TEST(GpuSetTest, WhatOneHasNoRoomForAnotherOneTakes) {
  std::atomic<bool> may_go_on{false};
  GpuCutterOptions options = SmallOptions();
  options.audit_period = 0;
  options.idle = [&] {
    while (!may_go_on) std::this_thread::yield();
  };
  const Gpus gpus = MakeGpus({{}, {}}, options);
  const auto plan = gpus.set->PlanOf(*ParseProfile(kProfileText), DigestAlgorithm::kBlake3);
  const auto bytes = MakeInput("random", TestSeed(), gpus.set->max_piece_bytes());
  std::vector<std::shared_ptr<Waiter>> waiters;
  do {
    waiters.push_back(std::make_shared<Waiter>());
    ASSERT_LT(waiters.size(), 100u);
  } while (gpus.set->TryCut(plan, bytes, true, waiters.back()));
  waiters.pop_back();
  // Two slots each.
  EXPECT_GE(waiters.size(), 4u);
  may_go_on = true;
  for (const auto& waiter : waiters) EXPECT_EQ(waiter->Wait(), PieceOutcome::kCut);
}

TEST(GpuSetTest, TheLossOfOneIsNobodyElses) {
  const Gpus well = MakeGpus({{}, {}, {}}, SmallOptions());
  RunStreams(*well.set, TestSeed(), 2);
  EXPECT_EQ(well.set->lost_count(), 0u);
  Random random(TestSeed());
  for (int round = 0; round < 2; ++round) {
    std::vector<Fault> faults(3);
    const std::size_t sick = random.Below(3);
    faults[sick] = {Fault::Kind::kLost, well.first_calls[sick] + random.Below(10)};
    const Gpus gpus = MakeGpus(faults, SmallOptions());
    // Where there is little to do, not all of them get any of it.
    while (gpus.set->lost_count() == 0) RunStreams(*gpus.set, random.Next(), 4);
    const std::vector<GpuState> states = gpus.set->states();
    for (std::size_t index = 0; index < states.size(); ++index) {
      EXPECT_EQ(states[index].number, index);
      EXPECT_EQ(states[index].health.ok(), index != sick) << states[index].health;
      EXPECT_EQ(gpus.devices[index]->late_call_count(), 0u);
    }
    EXPECT_EQ(gpus.set->lost_count(), 1u);
    EXPECT_TRUE(gpus.set->is_usable());
    // All that comes goes to the others.
    const std::uint64_t before = states[sick].counters.piece_count;
    RunStreams(*gpus.set, TestSeed(), 2);
    EXPECT_EQ(gpus.set->states()[sick].counters.piece_count, before);
  }
}

TEST(GpuSetTest, WithoutAnyThereIsNoPlan) {
  const std::vector<std::uint64_t> first_calls = MakeGpus({{}, {}}, SmallOptions()).first_calls;
  const Gpus gpus =
      MakeGpus({{Fault::Kind::kLost, first_calls[0] + 2}, {Fault::Kind::kLost, first_calls[1] + 5}},
               SmallOptions());
  const Profile profile = *ParseProfile(kProfileText);
  const auto plan = gpus.set->PlanOf(profile, DigestAlgorithm::kBlake3);
  ASSERT_NE(plan, nullptr);
  const auto bytes = MakeInput("random", TestSeed(), 20'000);
  for (int round = 0; round < 4; ++round) ExpectRightCuts(*gpus.set, plan, bytes);
  EXPECT_EQ(gpus.set->lost_count(), 2u);
  EXPECT_FALSE(gpus.set->is_usable());
  EXPECT_EQ(gpus.set->PlanOf(profile, DigestAlgorithm::kBlake3), nullptr);
  EXPECT_FALSE(gpus.set->TryCut(plan, bytes, true, std::make_shared<Waiter>()));
  for (const GpuState& state : gpus.set->states()) {
    EXPECT_GT(state.counters.lost_piece_count, 0u);
    EXPECT_THAT(std::string(state.health.message()), ::testing::HasSubstr("emulator is lost"));
  }
}

// What one cannot run another one can.
TEST(GpuSetTest, EachGetsWhatItCanRun) {
  const Fault refuses{.kind = Fault::Kind::kRefuses,
                      .kernel = KernelList::NumberOf<Sha256Chunks>()};
  const std::uint64_t first_call = MakeGpus({{}}, SmallOptions()).first_calls[0];
  const Gpus gpus = MakeGpus({refuses, {Fault::Kind::kLost, first_call + 400}}, SmallOptions());
  const Profile profile = *ParseProfile(kProfileText);
  const auto sha256 = gpus.set->PlanOf(profile, DigestAlgorithm::kSha256);
  const auto blake3 = gpus.set->PlanOf(profile, DigestAlgorithm::kBlake3);
  ASSERT_TRUE(sha256 != nullptr && blake3 != nullptr);
  const auto bytes = MakeInput("random", TestSeed(), 20'000);
  for (int piece = 0; piece < 3; ++piece) ExpectRightCuts(*gpus.set, sha256, bytes);
  std::vector<GpuState> states = gpus.set->states();
  EXPECT_EQ(states[0].counters.piece_count, 0u);
  EXPECT_EQ(states[1].counters.piece_count, 3u);
  EXPECT_THAT(states[0].left_out, ::testing::HasSubstr("fastcdc with sha256"));
  EXPECT_EQ(states[1].left_out, "");
  // Alone, it is of no use for that.
  while (gpus.set->lost_count() == 0) ExpectRightCuts(*gpus.set, sha256, bytes);
  EXPECT_EQ(gpus.set->PlanOf(profile, DigestAlgorithm::kSha256), nullptr);
  EXPECT_FALSE(gpus.set->TryCut(sha256, bytes, true, std::make_shared<Waiter>()));
  EXPECT_EQ(gpus.set->PlanOf(profile, DigestAlgorithm::kBlake3), blake3);
  ExpectRightCuts(*gpus.set, blake3, bytes);
  states = gpus.set->states();
  EXPECT_EQ(states[0].counters.piece_count, 1u);
  EXPECT_TRUE(states[0].health.ok() && gpus.set->is_usable());
}

TEST(GpuSetTest, APlanIsOneObjectAsLongAsItIsUsed) {
  const Gpus gpus = MakeGpus({{}}, SmallOptions());
  // A chunk may be larger than a batch.
  EXPECT_EQ(gpus.set->PlanOf(*ParseProfile("gear:min=4096,avg=8192,max=131072"),
                             DigestAlgorithm::kBlake3),
            nullptr);
  const Profile small = *ParseProfile(kProfileText);
  auto kept = gpus.set->PlanOf(small, DigestAlgorithm::kBlake3);
  ASSERT_NE(kept, nullptr);
  EXPECT_EQ(gpus.set->PlanOf(small, DigestAlgorithm::kBlake3), kept);
  EXPECT_NE(gpus.set->PlanOf(small, DigestAlgorithm::kSha256), kept);
  EXPECT_EQ(gpus.set->PlanOf(*ParseProfile("ram:window=256,max=4096"), DigestAlgorithm::kBlake3),
            nullptr);
  const std::weak_ptr<const BatchPlan> watched = kept;
  kept.reset();
  EXPECT_TRUE(watched.expired());
}

TEST(GpuSetTest, ThoseThatAreSlowerThanTheCpuGetNothing) {
  GpuCutterOptions options = SmallOptions();
  options.min_piece_bytes = std::numeric_limits<std::size_t>::max();
  const Gpus gpus = MakeGpus({{}}, options);
  EXPECT_FALSE(gpus.set->is_usable());
  EXPECT_EQ(gpus.set->PlanOf(*ParseProfile(kProfileText), DigestAlgorithm::kBlake3), nullptr);
}

}  // namespace
}  // namespace kerf::cuda
