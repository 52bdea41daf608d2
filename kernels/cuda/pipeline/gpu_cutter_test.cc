// Streams that are cut by a GPU, emulated here: the same chunks and fingerprints as the CPU's,
// however batches come together and whatever goes wrong on the way.
#include "kernels/cuda/pipeline/gpu_cutter.h"

#include <atomic>
#include <cstdint>
#include <future>
#include <limits>
#include <memory>
#include <optional>
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
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/cuda/plugin/kernel_list.h"
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
  return plans;
}

GpuCutterOptions SmallOptions() {
  GpuCutterOptions options;
  options.slot_count = 3;
  options.slot = {.batch_bytes = 64 << 10, .segment_count = 8};
  // The emulator is slow, and slower under a sanitizer.
  options.batch_timeout = std::chrono::minutes(2);
  options.idle = [] {};
  options.min_piece_bytes = 0;
  return options;
}

std::unique_ptr<Device> MakeEmulated(std::uint64_t seed) {
  return std::make_unique<EmulatedDevice>(
      EmulatedDeviceOptions{.kernels = EmulatedKernelsOf(KernelList()), .seed = seed});
}

PieceCuts CutAndWait(GpuCutter& cutter, const std::shared_ptr<const BatchPlan>& plan,
                     std::span<const std::uint8_t> piece, bool is_end) {
  std::promise<PieceCuts> answer;
  cutter.Cut(plan, piece, is_end, [&](PieceCuts cuts) { answer.set_value(std::move(cuts)); });
  return answer.get_future().get();
}

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
    const GpuCutterCounters counters = (*cutter)->counters();
    EXPECT_GT(counters.batch_count, 0u);
    EXPECT_EQ(counters.audited_batch_count, (counters.batch_count + 2) / 3);
    EXPECT_LT(counters.cpu_piece_count, counters.piece_count);
  }
}

TEST(GpuCutterTest, PiecesOfManyStreamsShareABatch) {
  const auto plan = PlanOf(kProfiles[0], DigestAlgorithm::kBlake3);
  GpuCutterOptions options = SmallOptions();
  options.max_delay = std::chrono::minutes(1);
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const auto bytes = MakeInput("random", TestSeed(), 3'000);
  constexpr std::uint64_t kPieces = 64;
  std::atomic<std::uint64_t> answer_count{0};
  for (std::uint64_t piece = 0; piece < kPieces; ++piece) {
    (*cutter)->Cut(plan, bytes, true, [&](const PieceCuts& cuts) {
      EXPECT_EQ(cuts.size_bytes(), bytes.size());
      ++answer_count;
    });
  }
  while (answer_count < kPieces) std::this_thread::yield();
  EXPECT_LT((*cutter)->counters().batch_count, kPieces);
}

// Every position is a mark: more than there is room for.
TEST(GpuCutterTest, WhatTheGpuGivesUpTheCpuCuts) {
  const auto plan = PlanOf(kProfiles[2], DigestAlgorithm::kSha256);
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), SmallOptions());
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const std::vector<std::uint8_t> zeros(40'000);
  const PieceCuts cuts = CutAndWait(**cutter, plan, zeros, true);
  EXPECT_TRUE(cuts.chunks ==
              CutPieceOnCpu(*plan->chunker, plan->digest_algorithm, zeros, true).chunks);
  EXPECT_EQ((*cutter)->counters().cpu_piece_count, 1u);
  EXPECT_TRUE((*cutter)->health().ok());
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
    RunWithFault({Fault::Kind::kWrongBit, call}, TestSeed(), options, &health);
    EXPECT_FALSE(health.ok()) << "call " << call;
  }
  // The first one of the self-test.
  RunWithFault({Fault::Kind::kWrongBit, 0}, TestSeed(), options, &health);
  EXPECT_FALSE(health.ok());
}

TEST(GpuCutterTest, WithLittleMemoryItTakesLess) {
  const auto starts_with = [](std::size_t memory_bytes) {
    return GpuCutter::Start(std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{
                                EmulatedKernelsOf(KernelList()), memory_bytes, TestSeed()}),
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

TEST(GpuCutterTest, APlanIsOneObject) {
  const auto cutter = GpuCutter::Start(MakeEmulated(TestSeed()), SmallOptions());
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  const Profile profile = *ParseProfile("gear-8k");
  const auto plan = (*cutter)->PlanOf(profile, DigestAlgorithm::kBlake3);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ((*cutter)->PlanOf(profile, DigestAlgorithm::kBlake3), plan);
  EXPECT_NE((*cutter)->PlanOf(profile, DigestAlgorithm::kSha256), plan);
  EXPECT_EQ((*cutter)->PlanOf(*ParseProfile("ram-8k"), DigestAlgorithm::kBlake3), nullptr);
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
  std::atomic<int> answer_count{0};
  int taken_count = 0;
  while ((*cutter)->TryCut(plan, bytes, true, [&](const PieceCuts&) { ++answer_count; })) {
    ++taken_count;
    ASSERT_LE(taken_count, 100);
  }
  // The thread may have answered some before it was held up.
  EXPECT_GE(taken_count, 3);
  may_go_on = true;
  while (answer_count < taken_count) std::this_thread::yield();
  EXPECT_TRUE((*cutter)->TryCut(plan, bytes, true, [&](const PieceCuts&) { ++answer_count; }));
  while (answer_count <= taken_count) std::this_thread::yield();
}

TEST(BatchPlanTest, KnowsWhatNoKernelDoes) {
  EXPECT_EQ(MakeBatchPlan(*ParseProfile("gear-8k"), DigestAlgorithm::kXxh3_128), nullptr);
  EXPECT_EQ(MakeBatchPlan(*ParseProfile("ram-8k"), DigestAlgorithm::kBlake3), nullptr);
  EXPECT_NE(MakeBatchPlan(*ParseProfile("fastcdc-8k"), DigestAlgorithm::kSha256), nullptr);
  // Every 32nd position of random data is a candidate.
  EXPECT_EQ(MakeBatchPlan(*ParseProfile("fastcdc:min=256,avg=256,max=2048,level=3"),
                          DigestAlgorithm::kBlake3),
            nullptr);
}

}  // namespace
}  // namespace kerf::cuda
