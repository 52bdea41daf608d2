// A batch's way: what comes back of it, and where its time went, by the clock of an emulated
// device.
#include "kernels/cuda/pipeline/batch_slot.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/digest_words.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

using std::chrono::nanoseconds;

constexpr SlotLimits kLimits{.batch_bytes = 64 << 10, .piece_count = 4};

std::shared_ptr<const BatchPlan> PlanOf(std::string_view profile,
                                        DigestAlgorithm algorithm = DigestAlgorithm::kBlake3) {
  return MakeBatchPlan(*ParseProfile(profile), algorithm);
}

constexpr std::string_view kGear = "gear:min=256,avg=512,max=2048";

void WaitFor(BatchSlot& slot) {
  absl::StatusOr<bool> is_done = false;
  while (is_done.ok() && !*is_done) is_done = slot.IsDone();
  ASSERT_TRUE(is_done.ok()) << is_done.status();
}

nanoseconds SumOf(const BatchTimes& times) {
  return times.copy_in + times.mark + times.select + times.digest.value_or(nanoseconds(0)) +
         times.copy_out;
}

// Remembers where its pinned memory ends.
class PinnedDevice final : public FaultyDevice {
 public:
  explicit PinnedDevice(std::unique_ptr<Device> device) : FaultyDevice(std::move(device), {}) {}

  absl::StatusOr<std::span<std::uint8_t>> AllocatePinned(std::size_t size_bytes) override {
    auto pinned = FaultyDevice::AllocatePinned(size_bytes);
    if (pinned.ok()) end_ = pinned->data() + pinned->size();
    return pinned;
  }
  const std::uint8_t* end() const { return end_; }

 private:
  const std::uint8_t* end_ = nullptr;
};

// What has been looked at is what is taken: a device that is broken may write at any time.
TEST(BatchSlotTest, WhatADeviceWritesLaterChangesNothing) {
  PinnedDevice device(std::make_unique<EmulatedDevice>(
      EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = TestSeed()}));
  const auto slot = *BatchSlot::Make(device, kLimits);
  WaitFor(*slot);
  for (const DigestAlgorithm algorithm : {DigestAlgorithm::kBlake3, DigestAlgorithm::kXxh3_128}) {
    const auto plan = PlanOf(kGear, algorithm);
    constexpr std::uint32_t kBytes = 48 << 10;
    const auto bytes = MakeInput("random", TestSeed(), kBytes);
    std::copy(bytes.begin(), bytes.end(), slot->bytes().begin());
    const SlotPiece piece{0, kBytes, true};
    ASSERT_TRUE(slot->Start(plan, {&piece, 1}).ok());
    WaitFor(*slot);
    // Behind the batch lies what comes back.
    std::uint8_t* const behind = slot->bytes().data() + slot->bytes().size();
    std::fill_n(behind, device.end() - behind, std::uint8_t{0xFF});
    PieceCuts cuts;
    ASSERT_TRUE(slot->TakeCuts(0, cuts));
    EXPECT_EQ(cuts.chunks, CutPieceOnCpu(*plan->chunker, algorithm, bytes, true).chunks);
  }
}

class BatchTimesTest : public testing::Test {
 protected:
  // What a slot asks of the device when it is made is done.
  void SetUp() override { WaitFor(*slot_); }

  // One piece of so many random bytes, on its way and back.
  void Run(const std::shared_ptr<const BatchPlan>& plan, std::uint32_t size_bytes) {
    const auto bytes = MakeInput("random", TestSeed(), size_bytes);
    std::copy(bytes.begin(), bytes.end(), slot_->bytes().begin());
    const SlotPiece piece{0, size_bytes, true};
    ASSERT_TRUE(slot_->Start(plan, {&piece, 1}).ok());
    WaitFor(*slot_);
  }
  BatchTimes TimesOf(const std::shared_ptr<const BatchPlan>& plan, std::uint32_t size_bytes) {
    Run(plan, size_bytes);
    EXPECT_TRUE(slot_->times().has_value());
    return slot_->times().value_or(BatchTimes());
  }

  EmulatedDevice device_{{.kernels = EmulatedKernelList(), .seed = TestSeed()}};
  const std::unique_ptr<BatchSlot> slot_ = *BatchSlot::Make(device_, kLimits);
};

TEST_F(BatchTimesTest, EachPartHasTheTimeOfItsCommands) {
  const nanoseconds before = device_.clock();
  const BatchTimes small = TimesOf(PlanOf(kGear), 16 << 10);
  EXPECT_EQ(SumOf(small), device_.clock() - before);
  PieceCuts cuts;
  ASSERT_TRUE(slot_->TakeCuts(0, cuts));
  const std::size_t out_bytes = sizeof(SelectedCuts) + sizeof(std::uint32_t) +
                                cuts.chunks.size() * (sizeof(Chunk) + sizeof(DigestWords));
  EXPECT_EQ(small.copy_out, nanoseconds(out_bytes));
  EXPECT_EQ(small.mark, EmulatedDevice::kLaunchTime);
  EXPECT_GT(small.select, EmulatedDevice::kLaunchTime);
  EXPECT_GT(small.digest, EmulatedDevice::kLaunchTime);

  // The same graph once more: the times are those of the last batch.
  const BatchTimes large = TimesOf(PlanOf(kGear), 48 << 10);
  EXPECT_EQ(large.copy_in - small.copy_in, nanoseconds(32 << 10));
  EXPECT_GT(large.copy_out, small.copy_out);
  EXPECT_EQ(large.mark, small.mark);
}

TEST_F(BatchTimesTest, MarksTakeWhatTheirKernelsTake) {
  const BatchTimes gear = TimesOf(PlanOf(kGear), 16 << 10);
  const BatchTimes peaks = TimesOf(PlanOf("maxp-local:window=300,max=5000"), 16 << 10);
  EXPECT_EQ(peaks.mark, 2 * gear.mark);
  const BatchTimes sha = TimesOf(PlanOf(kGear, DigestAlgorithm::kSha256), 16 << 10);
  EXPECT_EQ(sha.mark, gear.mark);
  EXPECT_EQ(sha.select, gear.select);
  EXPECT_NE(sha.digest, gear.digest);
}

TEST_F(BatchTimesTest, WhatTheHostSelectsHasNoDigests) {
  const nanoseconds before = device_.clock();
  const BatchTimes times = TimesOf(PlanOf(kGear, DigestAlgorithm::kXxh3_128), 16 << 10);
  EXPECT_FALSE(times.digest.has_value());
  EXPECT_GT(times.select, nanoseconds(0));
  EXPECT_EQ(SumOf(times), device_.clock() - before);
}

TEST_F(BatchTimesTest, WhoMeasuresHasNoneInBetween) {
  const auto plan = PlanOf(kGear);
  const BatchTimes times = TimesOf(plan, 16 << 10);
  const nanoseconds before = device_.clock();
  ASSERT_TRUE(slot_->Repeat(StepsOf(*plan), kDefaultStripBytes, 2).ok());
  ASSERT_TRUE(slot_->Fetch().ok());
  WaitFor(*slot_);
  EXPECT_FALSE(slot_->times().has_value());
  EXPECT_EQ(device_.clock() - before,
            2 * (times.mark + times.select + *times.digest) + times.copy_out);
}

// Neither of several pieces, some of them empty, nor of what the host selects.
TEST(BatchSlotTest, WhatIsCopiedBackWasWritten) {
  const auto bytes = MakeInput("random", TestSeed(), kLimits.batch_bytes);
  const SlotPiece pieces[] = {
      {0, 20'000, true}, {20'480, 0, false}, {20'480, 100, true}, {24'576, 9'000, false}};
  for (const DigestAlgorithm digest :
       {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256, DigestAlgorithm::kXxh3_128}) {
    // What another plan has written would be taken for this one's.
    EmulatedDevice device({.kernels = EmulatedKernelList(), .seed = TestSeed()});
    const auto slot = *BatchSlot::Make(device, kLimits);
    std::copy(bytes.begin(), bytes.end(), slot->bytes().begin());
    for (const std::size_t piece_count : {std::size_t{1}, std::size(pieces)}) {
      ASSERT_TRUE(slot->Start(PlanOf(kGear, digest), std::span(pieces).first(piece_count)).ok());
      WaitFor(*slot);
      EXPECT_EQ(device.unwritten_word_count(), 0u)
          << piece_count << " pieces, " << DigestAlgorithmName(digest);
    }
  }
}

// Moves the second cut of a batch so far that its chunk has one byte. All else is as it was.
class MovesACut final : public FaultyDevice {
 public:
  MovesACut()
      : FaultyDevice(std::make_unique<EmulatedDevice>(
                         EmulatedDeviceOptions{.kernels = EmulatedKernelList()}),
                     {}) {}

  absl::Status CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                       const std::uint8_t* from) override {
    copies_.push_back(pinned);
    return FaultyDevice::CopyOut(queue, pinned, from);
  }
  absl::StatusOr<bool> IsDone(QueueId queue) override {
    const absl::StatusOr<bool> is_done = FaultyDevice::IsDone(queue);
    // What there is of each piece, how many chunks, the chunks, and their digests.
    if (!is_done.ok() || !*is_done || copies_.size() < 4) return is_done;
    auto* const chunks = reinterpret_cast<Chunk*>(copies_[2].data());
    const std::uint32_t moved_bytes = chunks[1].size_bytes - 1;
    chunks[0].size_bytes += moved_bytes;
    chunks[1] = {chunks[1].offset + moved_bytes, 1};
    copies_.clear();
    return is_done;
  }

 private:
  std::vector<std::span<std::uint8_t>> copies_;
};

TEST(BatchSlotTest, ChunksThatNoRuleMakesAreNonsense) {
  MovesACut device;
  const auto slot = *BatchSlot::Make(device, kLimits);
  const auto bytes = MakeInput("random", TestSeed(), kLimits.batch_bytes);
  std::copy(bytes.begin(), bytes.end(), slot->bytes().begin());
  const SlotPiece piece{0, 48 << 10, true};
  // Two chunks are not as large as one may be.
  ASSERT_TRUE(slot->Start(PlanOf("gear:min=256,avg=256,max=32768"), {&piece, 1}).ok());
  absl::StatusOr<bool> is_done = false;
  while (is_done.ok() && !*is_done) is_done = slot->IsDone();
  EXPECT_TRUE(absl::IsInternal(is_done.status())) << is_done.status();
}

TEST(BatchTimesOfFaultyTest, WithoutAClockABatchIsWell) {
  FaultyDevice device(
      std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{.kernels = EmulatedKernelList()}),
      {Fault::Kind::kNoClock, 0});
  const auto slot = *BatchSlot::Make(device, kLimits);
  const SlotPiece piece{0, 4096, true};
  ASSERT_TRUE(slot->Start(PlanOf(kGear), {&piece, 1}).ok());
  WaitFor(*slot);
  EXPECT_FALSE(slot->times().has_value());
  PieceCuts cuts;
  EXPECT_TRUE(slot->TakeCuts(0, cuts));
}

}  // namespace
}  // namespace kerf::cuda
