// Streams that are cut by a GPU, emulated here: the same chunks and fingerprints as the CPU's,
// however batches come together and whatever goes wrong on the way.
#include "kernels/cuda/pipeline/gpu_cutter.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/chunker.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/cut_and_wait.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;

// Small enough for small inputs to have many chunks.
constexpr std::string_view kProfiles[] = {
    "gear:min=256,avg=512,max=2048",  "fastcdc:min=256,avg=1024,max=4096,level=2",
    "crc:min=256,bits=9,max=3000",    "rabin:min=300,avg=1024,max=5000",
    "maxp-local:window=300,max=5000", "mincdc:min=256,max=1500",
    "maxcdc:min=300,max=2000",        "fastcdc2020:min=256,avg=1024,max=4096,level=0",
};

std::shared_ptr<const BatchPlan> PlanOf(std::string_view profile, DigestAlgorithm algorithm) {
  const auto parsed = ParseProfile(profile);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  auto plan = MakeBatchPlan(*parsed, algorithm);
  EXPECT_NE(plan, nullptr) << profile;
  return plan;
}

std::vector<std::shared_ptr<const BatchPlan>> AllPlans() {
  std::vector<std::shared_ptr<const BatchPlan>> plans;
  for (const std::string_view profile : kProfiles) {
    for (const DigestAlgorithm algorithm : {DigestAlgorithm::kBlake3, DigestAlgorithm::kSha256}) {
      plans.push_back(PlanOf(profile, algorithm));
    }
  }
  plans.push_back(PlanOf(kProfiles[1], DigestAlgorithm::kXxh3_128));
  return plans;
}

GpuCutterOptions SmallOptions() {
  GpuCutterOptions options;
  options.slot_count = 3;
  options.slot = {.batch_bytes = 64 << 10, .piece_count = 8};
  // The emulator is slow, and slower under a sanitizer.
  options.batch_timeout = std::chrono::minutes(2);
  options.idle = [] {};
  options.min_piece_bytes = 0;
  return options;
}

std::unique_ptr<Device> MakeEmulated(std::uint64_t seed) {
  return std::make_unique<EmulatedDevice>(
      EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = seed});
}

// Remembers what it was told, and may send again.
class Recorder final : public PieceTaker {
 public:
  void OnPiece(PieceOutcome outcome) override {
    last_outcome_ = outcome;
    ++answer_count_;
  }
  void OnBatch(const BatchTimes& times) override {
    EXPECT_GT(times.mark, std::chrono::nanoseconds(0));
    ++batch_count_;
  }
  // Whose times it was told.
  std::uint64_t batch_count() const { return batch_count_; }
  int answer_count() const { return answer_count_; }
  PieceOutcome last_outcome() const { return last_outcome_; }
  void WaitFor(int answer_count) const {
    while (answer_count_ < answer_count) std::this_thread::yield();
  }

 private:
  std::atomic<PieceOutcome> last_outcome_{PieceOutcome::kLost};
  std::atomic<int> answer_count_{0};
  std::atomic<std::uint64_t> batch_count_{0};
};

// A chunker of a plan that says when it is asked, and waits until it may answer.
class HeldChunker final : public Chunker {
 public:
  HeldChunker(const Profile& profile, const std::atomic<bool>* may_go_on, std::atomic<int>* asked)
      : chunker_(MakeChunker(profile)), may_go_on_(may_go_on), asked_(asked) {}

  std::size_t NextCut(std::span<const std::uint8_t> bytes) const override {
    ++*asked_;
    while (!*may_go_on_) std::this_thread::yield();
    return chunker_->NextCut(bytes);
  }
  std::size_t max_chunk_bytes() const override { return chunker_->max_chunk_bytes(); }

 private:
  const std::unique_ptr<Chunker> chunker_;
  const std::atomic<bool>* const may_go_on_;
  std::atomic<int>* const asked_;
};

// A plan whose chunks the CPU can cut only when it may.
struct HeldPlan {
  explicit HeldPlan(std::string_view profile) {
    auto held = std::const_pointer_cast<BatchPlan>(PlanOf(profile, DigestAlgorithm::kSha256));
    held->chunker = std::make_unique<HeldChunker>(held->profile, &may_go_on, &asked);
    plan = std::move(held);
  }

  std::atomic<bool> may_go_on{false};
  std::atomic<int> asked{0};
  std::shared_ptr<const BatchPlan> plan;
};

// The whole stream, in pieces that arrive as they like: what is left over begins the next one.
PieceCuts CutStream(GpuCutter& cutter, const std::shared_ptr<const BatchPlan>& plan,
                    std::span<const std::uint8_t> stream, Random& random) {
  PieceCuts all;
  std::size_t arrived_bytes = 0;
  while (true) {
    const std::size_t most = std::min(stream.size(), cutter.max_piece_bytes());
    arrived_bytes = std::min(most, arrived_bytes + random.Between(0, 20'000));
    const bool is_end = arrived_bytes == stream.size();
    const PieceCuts cuts = CutAndWait(cutter, plan, stream.first(arrived_bytes), is_end);
    all.chunks.insert(all.chunks.end(), cuts.chunks.begin(), cuts.chunks.end());
    stream = stream.subspan(cuts.size_bytes());
    arrived_bytes -= cuts.size_bytes();
    if (is_end) {
      EXPECT_TRUE(stream.empty());
      return all;
    }
  }
}

struct Stream {
  std::shared_ptr<const BatchPlan> plan;
  std::vector<std::uint8_t> bytes;
};

std::vector<Stream> SomeStreams(Random& random, std::size_t count) {
  const auto plans = AllPlans();
  const auto inputs = NastyInputs();
  std::vector<Stream> streams;
  for (std::size_t number = 0; number < count; ++number) {
    const InputName& input = inputs[random.Below(inputs.size())];
    const std::size_t size_bytes = random.OneIn(5) ? random.Below(600) : random.Below(90'000);
    streams.push_back(
        {plans[random.Below(plans.size())], MakeInput(input.kind, input.seed, size_bytes)});
  }
  return streams;
}

// All streams at once, a thread for each.
void ExpectRightCuts(GpuCutter& cutter, const std::vector<Stream>& streams, std::uint64_t seed) {
  std::vector<std::thread> threads;
  threads.reserve(streams.size());
  for (std::size_t number = 0; number < streams.size(); ++number) {
    threads.emplace_back([&, number] {
      const Stream& stream = streams[number];
      Random random(seed + number);
      const PieceCuts cuts = CutStream(cutter, stream.plan, stream.bytes, random);
      const PieceCuts expected =
          CutPieceOnCpu(*stream.plan->chunker, stream.plan->digest_algorithm, stream.bytes, true);
      EXPECT_TRUE(cuts.chunks == expected.chunks)
          << FormatProfile(stream.plan->profile) << ", " << stream.bytes.size() << " bytes";
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(GpuCutterTest, StreamsAreCutAsTheCpuCutsThem) {
  for (std::uint64_t round = 0; round < 4; ++round) {
    const std::uint64_t seed = TestSeed() + round;
    Random random(seed);
    GpuCutterOptions options = SmallOptions();
    options.audit_period = 3;
    const auto cutter = GpuCutter::Start(MakeEmulated(seed), options);
    ASSERT_TRUE(cutter.ok()) << cutter.status();
    ExpectRightCuts(**cutter, SomeStreams(random, 6), seed);
    EXPECT_TRUE((*cutter)->health().ok()) << (*cutter)->health();
    const GpuCounters counters = (*cutter)->counters();
    EXPECT_GT(counters.batch_count, 0u);
    EXPECT_EQ(counters.audited_batch_count, (counters.batch_count + 2) / 3);
    EXPECT_LT(counters.given_up_piece_count, counters.piece_count);
    EXPECT_EQ(counters.lost_piece_count, 0u);
    EXPECT_EQ(counters.mismatch_count, 0u);
    EXPECT_EQ((*cutter)->pending_bytes(), 0u);
  }
}

TEST(GpuCutterTest, PiecesOfManyStreamsShareABatch) {
  const auto plan = PlanOf(kProfiles[0], DigestAlgorithm::kBlake3);
  GpuCutterOptions options = SmallOptions();
  options.max_delay = std::chrono::minutes(1);
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const auto bytes = MakeInput("random", TestSeed(), 3'000);
  std::vector<std::shared_ptr<Recorder>> takers(64);
  for (auto& taker : takers) {
    taker = std::make_shared<Recorder>();
    while (!(*cutter)->TryCut(plan, bytes, true, taker)) std::this_thread::yield();
  }
  std::uint64_t told_count = 0;
  for (const auto& taker : takers) {
    taker->WaitFor(1);
    EXPECT_EQ(taker->cuts.size_bytes(), bytes.size());
    told_count += taker->batch_count();
  }
  EXPECT_LT((*cutter)->counters().batch_count, takers.size());
  // One of each batch.
  EXPECT_EQ(told_count, (*cutter)->counters().batch_count);
}

// Of zeros every position is a mark: more than there is room for. Their sender alone cuts them,
// however long that takes it.
TEST(GpuCutterTest, WhatTheGpuGivesUpHoldsUpNobody) {
  GpuCutterOptions options = SmallOptions();
  options.audit_period = 0;
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const HeldPlan hostile(kProfiles[2]);
  const std::vector<std::uint8_t> zeros(40'000);
  const auto taker = std::make_shared<Recorder>();
  const Stream good{PlanOf(kProfiles[1], DigestAlgorithm::kSha256),
                    MakeInput("random", TestSeed(), 50'000)};
  for (int round = 1; round <= 4; ++round) {
    ASSERT_TRUE((*cutter)->TryCut(hostile.plan, zeros, true, taker));
    ExpectRightCuts(**cutter, {good}, TestSeed());
    taker->WaitFor(round);
    EXPECT_EQ(taker->last_outcome(), PieceOutcome::kGivenUp);
  }
  EXPECT_EQ(hostile.asked, 0);
  EXPECT_EQ((*cutter)->counters().given_up_piece_count, 4u);
  EXPECT_TRUE((*cutter)->health().ok());
}

// Nor does what the CPU is asked to check.
TEST(GpuCutterTest, AnAuditHoldsUpNobody) {
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), SmallOptions());
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  HeldPlan audited(kProfiles[0]);
  const auto bytes = MakeInput("random", TestSeed(), 30'000);
  const auto taker = std::make_shared<Recorder>();
  // The first batch of all.
  ASSERT_TRUE((*cutter)->TryCut(audited.plan, bytes, true, taker));
  while (audited.asked == 0) std::this_thread::yield();
  ExpectRightCuts(
      **cutter,
      {{PlanOf(kProfiles[1], DigestAlgorithm::kBlake3), MakeInput("random", TestSeed(), 200'000)}},
      TestSeed());
  EXPECT_EQ(taker->answer_count(), 0);
  EXPECT_GT((*cutter)->pending_bytes(), 0u);
  audited.may_go_on = true;
  taker->WaitFor(1);
  EXPECT_EQ(taker->last_outcome(), PieceOutcome::kCut);
  EXPECT_EQ(taker->cuts.size_bytes(), bytes.size());
  EXPECT_EQ((*cutter)->counters().audited_batch_count, 1u);
}

TEST(GpuCutterTest, IsClosedWhileABatchIsAudited) {
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), SmallOptions());
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  HeldPlan audited(kProfiles[0]);
  const auto taker = std::make_shared<Recorder>();
  ASSERT_TRUE(
      (*cutter)->TryCut(audited.plan, MakeInput("random", TestSeed(), 30'000), true, taker));
  while (audited.asked == 0) std::this_thread::yield();
  std::thread closing([&] { (*cutter)->Close(); });
  audited.may_go_on = true;
  closing.join();
  EXPECT_EQ(taker->answer_count(), 1);
  EXPECT_FALSE((*cutter)->TryCut(audited.plan, {}, true, taker));
}

// A driver that holds a call for ever holds neither streams nor who closes, whichever call it is:
// one of those that start a batch, or that ask whether it is done.
TEST(GpuCutterTest, ACallThatNeverReturnsHoldsNobody) {
  const auto plan = PlanOf(kProfiles[0], DigestAlgorithm::kBlake3);
  const auto bytes = MakeInput("random", TestSeed(), 30'000);
  const PieceCuts expected = CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, bytes, true);
  // The first one notes a moment, and about the tenth asks.
  for (const std::uint64_t call : {0u, 1u, 40u}) {
    const auto is_armed = std::make_shared<std::atomic<bool>>(false);
    const auto is_released = std::make_shared<std::atomic<bool>>(false);
    Fault fault{.kind = Fault::Kind::kHangs, .call = call};
    fault.is_released = [is_released] { return is_released->load(); };
    GpuCutterOptions options = SmallOptions();
    // A call that takes the emulator longer than that is given up, too, and returns.
    options.call_timeout = std::chrono::milliseconds(500);
    int lost_count = 0;
    options.on_lost = [&](const absl::Status&) { ++lost_count; };
    auto cutter =
        GpuCutter::Start(std::make_unique<FaultyDevice>(MakeEmulated(TestSeed()), fault,
                                                        [is_armed] { return is_armed->load(); }),
                         options);
    ASSERT_TRUE(cutter.ok()) << cutter.status();
    *is_armed = true;
    while ((*cutter)->health().ok()) {
      EXPECT_TRUE(CutAndWait(**cutter, plan, bytes, true).chunks == expected.chunks);
    }
    EXPECT_THAT((*cutter)->health().ToString(), HasSubstr("call of its driver has not returned"));
    EXPECT_EQ((*cutter)->pending_bytes(), 0u);
    EXPECT_FALSE((*cutter)->TryCut(plan, bytes, true, std::make_shared<Recorder>()));
    (*cutter)->Close();
    EXPECT_EQ(lost_count, 1);
    cutter->reset();
    // A call that returns when all is gone finds what it needs.
    *is_released = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// Calls that a run makes before and after the self-test.
struct CallCounts {
  std::uint64_t start = 0;
  std::uint64_t all = 0;
};

// One run with a fault; whatever happens, the chunks are right.
CallCounts RunWithFault(Fault fault, std::uint64_t seed, GpuCutterOptions options,
                        absl::Status* health) {
  auto faulty = std::make_unique<FaultyDevice>(MakeEmulated(seed), fault);
  const FaultyDevice& device = *faulty;
  CallCounts counts;
  auto cutter = GpuCutter::Start(std::move(faulty), std::move(options));
  if (!cutter.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(cutter.status())) << cutter.status();
    EXPECT_NE(fault.kind, Fault::Kind::kNone);
    *health = cutter.status();
    return counts;
  }
  counts.start = device.call_count();
  Random random(seed);
  const std::vector<Stream> streams = SomeStreams(random, 3);
  for (const Stream& stream : streams) {
    const PieceCuts cuts = CutStream(**cutter, stream.plan, stream.bytes, random);
    const PieceCuts expected =
        CutPieceOnCpu(*stream.plan->chunker, stream.plan->digest_algorithm, stream.bytes, true);
    EXPECT_TRUE(cuts.chunks == expected.chunks) << "fault at call " << fault.call;
  }
  *health = (*cutter)->health();
  EXPECT_EQ(device.late_call_count(), 0u);
  counts.all = device.call_count();
  return counts;
}

TEST(GpuCutterTest, ADeviceThatIsLostAnywhereCostsNothing) {
  absl::Status health;
  const CallCounts counts = RunWithFault({}, TestSeed(), SmallOptions(), &health);
  ASSERT_TRUE(health.ok()) << health;
  Random random(TestSeed());
  for (int round = 0; round < 12; ++round) {
    // The emulator is asked how it is going as often as it likes: the last calls may not come.
    const std::uint64_t call =
        random.Between(counts.start, counts.start + (counts.all - counts.start) / 2);
    RunWithFault({Fault::Kind::kLost, call}, TestSeed(), SmallOptions(), &health);
    EXPECT_TRUE(absl::IsInternal(health)) << health;
    EXPECT_THAT(std::string(health.message()), HasSubstr("is lost"));
  }
  for (int round = 0; round < 4; ++round) {
    const std::uint64_t call = random.Below(counts.start);
    RunWithFault({Fault::Kind::kLost, call}, TestSeed(), SmallOptions(), &health);
    EXPECT_FALSE(health.ok());
  }
}

TEST(GpuCutterTest, ADeviceThatFallsSilentIsGivenUp) {
  absl::Status health;
  const CallCounts counts = RunWithFault({}, TestSeed(), SmallOptions(), &health);
  GpuCutterOptions options = SmallOptions();
  options.batch_timeout = std::chrono::milliseconds(1'000);
  RunWithFault({Fault::Kind::kSilent, counts.start + 5}, TestSeed(), options, &health);
  EXPECT_THAT(std::string(health.message()), HasSubstr("has not come back"));
  RunWithFault({Fault::Kind::kSilent, counts.start / 2}, TestSeed(), options, &health);
  EXPECT_THAT(std::string(health.message()), HasSubstr("self-test"));
}

// Whoever looks is held up once, between two looks, for longer than a batch may take.
class HeldUpDevice final : public FaultyDevice {
 public:
  HeldUpDevice(std::unique_ptr<Device> device, std::chrono::milliseconds pause)
      : FaultyDevice(std::move(device), {}), pause_(pause) {}

  absl::StatusOr<bool> IsDone(QueueId queue) override {
    absl::StatusOr<bool> is_done = FaultyDevice::IsDone(queue);
    if (is_done.ok() && !*is_done) std::this_thread::sleep_for(std::exchange(pause_, {}));
    return is_done;
  }

 private:
  std::chrono::milliseconds pause_;
};

TEST(GpuCutterTest, ADeviceIsNotLostBecauseNobodyLooks) {
  GpuCutterOptions options = SmallOptions();
  options.batch_timeout = std::chrono::milliseconds(1'500);
  const auto cutter = GpuCutter::Start(
      std::make_unique<HeldUpDevice>(MakeEmulated(TestSeed()), options.batch_timeout * 6 / 5),
      options);
  EXPECT_TRUE(cutter.ok()) << cutter.status();
}

// All that was asked for is done at the first look, which takes a while.
class LateLookDevice final : public FaultyDevice {
 public:
  LateLookDevice()
      : FaultyDevice(std::make_unique<EmulatedDevice>(
                         EmulatedDeviceOptions{.kernels = EmulatedKernelList()}),
                     {}) {}

  absl::StatusOr<bool> IsDone(QueueId queue) override {
    std::this_thread::sleep_for(kPause);
    return FaultyDevice::IsDone(queue);
  }

  static constexpr std::chrono::milliseconds kPause{5};
};

// A batch is back at the second look; whatever was between the two, there has to be that one.
TEST(GpuCutterTest, ADeviceIsLookedAtBeforeItIsLost) {
  GpuCutterOptions options = SmallOptions();
  options.batch_timeout = LateLookDevice::kPause / 5;
  const auto cutter = GpuCutter::Start(std::make_unique<LateLookDevice>(), options);
  EXPECT_TRUE(cutter.ok()) << cutter.status();
}

// Some pieces are given up, others are on their way when the device goes: each is answered once.
TEST(GpuCutterTest, ADeviceIsLostWhileItHandsBack) {
  HeldPlan hostile(kProfiles[2]);
  hostile.may_go_on = true;
  const std::vector<std::uint8_t> zeros(30'000);
  const auto run = [&](Fault fault, std::uint64_t seed) {
    // Always with the same calls before the first piece.
    auto faulty = std::make_unique<FaultyDevice>(MakeEmulated(TestSeed()), fault);
    const FaultyDevice& device = *faulty;
    const auto cutter = GpuCutter::Start(std::move(faulty), SmallOptions());
    EXPECT_TRUE(cutter.ok()) << cutter.status();
    CallCounts counts;
    counts.start = device.call_count();
    std::thread sender([&] {
      Random random(seed);
      const auto taker = std::make_shared<Recorder>();
      for (int sent = 0; sent < 6;) {
        const auto piece = std::span(zeros).first(random.Between(20'000, zeros.size()));
        if ((*cutter)->TryCut(hostile.plan, piece, false, taker)) taker->WaitFor(++sent);
        if ((*cutter)->is_lost()) break;
        EXPECT_NE(taker->last_outcome(), PieceOutcome::kCut);
      }
    });
    Random random(seed);
    ExpectRightCuts(**cutter, SomeStreams(random, 2), seed);
    sender.join();
    const GpuCounters counters = (*cutter)->counters();
    counts.all = device.call_count();
    const bool is_lost = fault.kind == Fault::Kind::kLost && counts.all > fault.call;
    EXPECT_EQ((*cutter)->is_lost(), is_lost);
    if (!is_lost) {
      EXPECT_EQ(counters.lost_piece_count, 0u);
    }
    EXPECT_EQ((*cutter)->pending_bytes(), 0u);
    return counts;
  };
  const CallCounts counts = run({}, TestSeed());
  Random random(TestSeed());
  for (int round = 0; round < 4; ++round) {
    // So few that they come in any run.
    const std::uint64_t call =
        random.Between(counts.start, counts.start + (counts.all - counts.start) / 3);
    run({Fault::Kind::kLost, call}, TestSeed() + static_cast<std::uint64_t>(round));
  }
}

// The process was stopped, not the device.
TEST(GpuCutterTest, APauseOfTheProcessLosesNoDevice) {
  const auto plan = PlanOf(kProfiles[0], DigestAlgorithm::kBlake3);
  GpuCutterOptions options = SmallOptions();
  options.batch_timeout = std::chrono::milliseconds(1'000);
  std::atomic<bool> has_paused{false};
  options.idle = [&] {
    if (!has_paused.exchange(true)) std::this_thread::sleep_for(std::chrono::milliseconds(1'500));
  };
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const auto bytes = MakeInput("random", TestSeed(), 20'000);
  while (!has_paused) CutAndWait(**cutter, plan, bytes, true);
  EXPECT_TRUE((*cutter)->health().ok()) << (*cutter)->health();
}

TEST(GpuCutterTest, WrongAnswersAreFound) {
  absl::Status health;
  GpuCutterOptions options = SmallOptions();
  options.audit_period = 1;
  const CallCounts counts = RunWithFault({}, TestSeed(), options, &health);
  ASSERT_TRUE(health.ok()) << health;
  Random random(TestSeed());
  for (int round = 0; round < 8; ++round) {
    const std::uint64_t call =
        random.Between(counts.start, counts.start + (counts.all - counts.start) / 2);
    RunWithFault({Fault::Kind::kWrongBits, call}, TestSeed(), options, &health);
    EXPECT_FALSE(health.ok()) << "call " << call;
  }
  // The first one of the self-test.
  RunWithFault({Fault::Kind::kWrongBits, 0}, TestSeed(), options, &health);
  EXPECT_FALSE(health.ok());
}

TEST(GpuCutterTest, WithLittleMemoryItTakesLess) {
  const auto starts_with = [](std::size_t memory_bytes) {
    return GpuCutter::Start(std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{
                                EmulatedKernelList(), memory_bytes, TestSeed()}),
                            SmallOptions());
  };
  std::size_t memory_bytes = 4 << 20;
  std::size_t last_piece_bytes = 0;
  while (true) {
    const auto cutter = starts_with(memory_bytes);
    if (!cutter.ok()) {
      EXPECT_TRUE(absl::IsUnavailable(cutter.status())) << cutter.status();
      break;
    }
    last_piece_bytes = (*cutter)->max_piece_bytes();
    Random random(TestSeed());
    ExpectRightCuts(**cutter, SomeStreams(random, 1), TestSeed());
    memory_bytes = memory_bytes * 3 / 4;
  }
  EXPECT_EQ(last_piece_bytes, std::size_t{32} << 10);
}

// The emulator is slower than the CPU, always.
TEST(GpuCutterTest, MeasuresWhatTheCpuDoesFaster) {
  GpuCutterOptions options = SmallOptions();
  options.min_piece_bytes.reset();
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  EXPECT_EQ((*cutter)->min_piece_bytes(), std::numeric_limits<std::size_t>::max());
}

// What the self-test has recorded goes; of what streams ask for the latest plans stay.
TEST(GpuCutterTest, KeepsTheGraphsOfPlansThatAreInUse) {
  auto emulated = std::make_unique<EmulatedDevice>(
      EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = TestSeed()});
  const EmulatedDevice& device = *emulated;
  GpuCutterOptions options = SmallOptions();
  options.slot_count = 1;
  const auto cutter = GpuCutter::Start(std::move(emulated), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  EXPECT_EQ(device.graph_count(), 0u);
  const auto bytes = MakeInput("random", TestSeed(), 5'000);
  std::vector<std::shared_ptr<const BatchPlan>> plans = AllPlans();
  for (const auto& plan : AllPlans()) plans.push_back(plan);
  std::size_t expected_count = 0;
  for (const auto& plan : plans) {
    // The first one is used all the time.
    for (const auto& each : {plans[0], plan}) {
      const PieceCuts cuts = CutAndWait(**cutter, each, bytes, true);
      EXPECT_TRUE(cuts.chunks ==
                  CutPieceOnCpu(*each->chunker, each->digest_algorithm, bytes, true).chunks);
    }
    EXPECT_EQ(device.graph_count(), std::min<std::size_t>(++expected_count, 16));
  }
  const std::uint64_t made = device.made_graph_count();
  CutAndWait(**cutter, plans[0], bytes, true);
  CutAndWait(**cutter, plans.back(), bytes, true);
  EXPECT_EQ(device.made_graph_count(), made);
  CutAndWait(**cutter, plans[1], bytes, true);
  EXPECT_EQ(device.made_graph_count(), made + 1);
}

// All slots are full and on their way, as long as nobody asks the device.
TEST(GpuCutterTest, WhoWillNotWaitIsToldSo) {
  const auto plan = PlanOf(kProfiles[0], DigestAlgorithm::kBlake3);
  std::atomic<bool> may_go_on{false};
  GpuCutterOptions options = SmallOptions();
  options.idle = [&] {
    while (!may_go_on) std::this_thread::yield();
  };
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const auto bytes = MakeInput("random", TestSeed(), (*cutter)->max_piece_bytes());
  std::vector<std::shared_ptr<Recorder>> takers;
  do {
    takers.push_back(std::make_shared<Recorder>());
    ASSERT_LE(takers.size(), 100u);
  } while ((*cutter)->TryCut(plan, bytes, true, takers.back()));
  const auto refused = takers.back();
  takers.pop_back();
  // The thread may have answered some before it was held up.
  EXPECT_GE(takers.size(), 3u);
  EXPECT_EQ((*cutter)->counters().refused_piece_count, 1u);
  may_go_on = true;
  for (const auto& taker : takers) taker->WaitFor(1);
  EXPECT_TRUE((*cutter)->TryCut(plan, bytes, true, refused));
  refused->WaitFor(1);
}

TEST(BatchPlanTest, KnowsWhatNoKernelDoes) {
  const auto without_digest = MakeBatchPlan(*ParseProfile("gear-8k"), DigestAlgorithm::kXxh3_128);
  ASSERT_NE(without_digest, nullptr);
  EXPECT_EQ(without_digest->selection, Selection::kHost);
  EXPECT_EQ(MakeBatchPlan(*ParseProfile("ram-8k"), DigestAlgorithm::kBlake3), nullptr);
  for (const char* extreme : {"mincdc-8k", "maxcdc-8k"}) {
    EXPECT_EQ(MakeBatchPlan(*ParseProfile(extreme), DigestAlgorithm::kXxh3_128), nullptr);
    EXPECT_NE(MakeBatchPlan(*ParseProfile(extreme), DigestAlgorithm::kBlake3), nullptr);
  }
  EXPECT_NE(MakeBatchPlan(*ParseProfile("fastcdc-8k"), DigestAlgorithm::kSha256), nullptr);
  // Every 32nd position of random data is a candidate.
  EXPECT_EQ(MakeBatchPlan(*ParseProfile("fastcdc:min=256,avg=256,max=2048,level=3"),
                          DigestAlgorithm::kBlake3),
            nullptr);
}

}  // namespace
}  // namespace kerf::cuda
