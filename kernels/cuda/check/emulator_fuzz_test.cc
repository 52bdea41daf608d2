// The whole pipeline on emulated devices, for as long as one likes: any profile, batch, slot,
// length of strips and order of files, and devices that go wrong at any call. What comes out is
// always what the CPU makes of the bytes. Round r is made of the test's seed + r alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/check/fuzz_cases.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/kernel/batch.h"
#include "kernels/cuda/kernel/strip_marks.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/pipeline/cpu_comparison.h"
#include "kernels/cuda/pipeline/cut_and_wait.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kMostBatchBytes = 256 << 10;
constexpr std::size_t kMostPieces = 64;
constexpr std::size_t kMostStreams = 6;
// The emulator is slow, and slower under a sanitizer; a device that falls silent is waited for.
constexpr std::chrono::milliseconds kTimeout{120'000};
constexpr std::chrono::milliseconds kSilentTimeout{1'000};

std::unique_ptr<FaultyDevice> MakeDevice(std::uint64_t seed, Fault fault) {
  return std::make_unique<FaultyDevice>(std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{
                                            .kernels = EmulatedKernelList(), .seed = seed}),
                                        fault);
}

SlotLimits AnySlot(Random& random) {
  return {.batch_bytes = random.Between(16 << 10, kMostBatchBytes) / kBatchAlignmentBytes *
                         kBatchAlignmentBytes,
          .piece_count = random.Between(1, kMostPieces)};
}

struct Figures {
  std::uint64_t byte_count = 0;
  std::uint64_t batch_round_count = 0;
  std::uint64_t stream_round_count = 0;
  std::uint64_t lost_device_count = 0;
  std::uint64_t refused_device_count = 0;
};

class Rounds {
 public:
  void Run(std::uint64_t seed) {
    Random random(seed);
    if (random.OneIn(2)) {
      RunBatches(random);
    } else {
      RunStreams(random);
    }
  }

  const Figures& figures() const { return figures_; }

 private:
  // Batches of one slot: with the strips that kerfd has, and with others.
  void RunBatches(Random& random) {
    ++figures_.batch_round_count;
    const auto device = MakeDevice(random.Next(), {});
    const auto slot = BatchSlot::Make(*device, AnySlot(random));
    ASSERT_TRUE(slot.ok()) << slot.status();
    for (std::uint64_t count = random.Between(1, 3); count > 0; --count) {
      ASSERT_NO_FATAL_FAILURE(RunBatch(random, **slot));
    }
  }

  void RunBatch(Random& random, BatchSlot& slot) {
    const auto plan = AnyPlan(random, kMaxMaxBytes);
    const std::vector<SlotPiece> pieces = LayOut(random, slot);
    SCOPED_TRACE(Cat(FormatProfile(plan->profile), ", ", pieces.size(), " pieces in ",
                     slot.limits().batch_bytes, " bytes"));
    const absl::Status started = slot.Start(plan, pieces);
    ASSERT_TRUE(started.ok()) << started;
    ASSERT_NO_FATAL_FAILURE(ExpectRightBatch(slot, plan, pieces));
    const auto strip_bytes = static_cast<std::uint32_t>(
        kStripAlignmentBytes *
        (random.OneIn(4) ? random.Between(1, kMaxStripBytes / 128) : random.Below(20)));
    SCOPED_TRACE(Cat("strips of ", strip_bytes));
    const absl::Status repeated = slot.Repeat(StepsOf(*plan), strip_bytes, 1);
    ASSERT_TRUE(repeated.ok()) << repeated;
    const absl::Status fetched = slot.Fetch();
    ASSERT_TRUE(fetched.ok()) << fetched;
    ASSERT_NO_FATAL_FAILURE(ExpectRightBatch(slot, plan, pieces));
  }

  std::vector<SlotPiece> LayOut(Random& random, BatchSlot& slot) {
    std::vector<SlotPiece> pieces;
    const std::size_t most_pieces = random.Between(1, slot.limits().piece_count);
    const std::size_t most_bytes = AnySize(random, slot.limits().batch_bytes);
    std::size_t offset = 0;
    while (pieces.size() < most_pieces && offset <= most_bytes) {
      const std::size_t size_bytes = AnySize(random, most_bytes - offset);
      pieces.push_back({static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size_bytes),
                        random.OneIn(2)});
      data_.Fill(random, slot.bytes().subspan(offset, size_bytes));
      figures_.byte_count += size_bytes;
      const std::size_t gap_count = random.OneIn(4) ? random.Below(100) : 0;
      offset += ((size_bytes + kPieceAlignmentBytes - 1) / kPieceAlignmentBytes + gap_count) *
                kPieceAlignmentBytes;
    }
    return pieces;
  }

  static void ExpectRightBatch(BatchSlot& slot, const std::shared_ptr<const BatchPlan>& plan,
                               const std::vector<SlotPiece>& pieces) {
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done) is_done = slot.IsDone();
    ASSERT_TRUE(is_done.ok()) << is_done.status();
    for (std::size_t number = 0; number < pieces.size(); ++number) {
      const SlotPiece& piece = pieces[number];
      ComparedPiece compared{
          plan, slot.bytes().subspan(piece.offset, piece.size_bytes), piece.is_end, {}};
      if (!slot.TakeCuts(number, compared.cuts)) continue;
      ASSERT_EQ(DifferenceOf(compared), "")
          << "piece " << number << ", " << piece.size_bytes << " bytes at " << piece.offset;
    }
  }

  // Streams that share a device, which may go wrong: first beside each other, then one after
  // another in another order and in other pieces.
  void RunStreams(Random& random) {
    ++figures_.stream_round_count;
    GpuCutterOptions options;
    options.slot_count = random.Between(1, 4);
    options.slot = AnySlot(random);
    options.max_delay = std::chrono::microseconds(random.Below(2'000));
    options.audit_period = random.Below(4);
    if (random.OneIn(4)) options.min_piece_bytes = random.Below(options.slot.batch_bytes);
    if (!options.min_piece_bytes.has_value()) options.min_piece_bytes = 0;
    const std::uint64_t device_seed = random.Next();
    const Fault fault = AnyFault(random, device_seed, options);
    // A wrong bit is found by who looks.
    if (fault.kind == Fault::Kind::kWrongBits) options.audit_period = 1;
    options.batch_timeout = fault.kind == Fault::Kind::kSilent ? kSilentTimeout : kTimeout;
    SCOPED_TRACE(Cat("fault ", static_cast<int>(fault.kind), " at call ", fault.call));
    const auto cutter = GpuCutter::Start(MakeDevice(device_seed, fault), std::move(options));
    if (!cutter.ok()) {
      ++figures_.refused_device_count;
      ASSERT_NE(fault.kind, Fault::Kind::kNone) << cutter.status();
      return;
    }
    std::vector<ComparedPiece> streams(random.Between(1, kMostStreams));
    std::vector<std::vector<std::uint8_t>> bytes(streams.size());
    for (std::size_t index = 0; index < streams.size(); ++index) {
      bytes[index].resize(AnySize(random, 2 * kMostBatchBytes));
      data_.Fill(random, bytes[index]);
      figures_.byte_count += bytes[index].size();
      const bool is_shared = index > 0 && random.OneIn(2);
      auto plan = is_shared ? streams[random.Below(index)].plan
                            : AnyPlan(random, (*cutter)->max_piece_bytes());
      streams[index] = {std::move(plan), bytes[index], true, {}};
    }
    std::vector<std::thread> threads;
    threads.reserve(streams.size());
    for (ComparedPiece& stream : streams) {
      threads.emplace_back([&, own = Random(random.Next())]() mutable {
        stream.cuts = CutStream(**cutter, stream.plan, stream.bytes, own);
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(DifferenceOfAny(streams), "");
    for (std::size_t index = streams.size(); index > 1; --index) {
      std::swap(streams[index - 1], streams[random.Below(index)]);
    }
    for (const ComparedPiece& stream : streams) {
      ASSERT_TRUE(CutStream(**cutter, stream.plan, stream.bytes, random).chunks ==
                  stream.cuts.chunks)
          << FormatProfile(stream.plan->profile) << ", again";
    }
    const absl::Status health = (*cutter)->health();
    if (!health.ok()) ++figures_.lost_device_count;
    ASSERT_TRUE(health.ok() || fault.kind != Fault::Kind::kNone) << health;
  }

  // Mostly behind the calls of the self-test.
  static Fault AnyFault(Random& random, std::uint64_t device_seed,
                        const GpuCutterOptions& options) {
    constexpr Fault::Kind kKinds[] = {Fault::Kind::kNone,      Fault::Kind::kNone,
                                      Fault::Kind::kLost,      Fault::Kind::kLost,
                                      Fault::Kind::kWrongBits, Fault::Kind::kSilent};
    if (random.OneIn(12)) return {Fault::Kind::kNoMemory, random.Below(8)};
    const Fault::Kind kind = kKinds[random.Below(std::size(kKinds))];
    if (kind == Fault::Kind::kNone) return {};
    return {kind, random.OneIn(6) ? random.Below(500)
                                  : CountStartCalls(device_seed, options) + random.Below(1'000)};
  }

  static std::uint64_t CountStartCalls(std::uint64_t device_seed, const GpuCutterOptions& options) {
    auto device = MakeDevice(device_seed, {});
    const FaultyDevice& counting = *device;
    const auto cutter = GpuCutter::Start(std::move(device), options);
    EXPECT_TRUE(cutter.ok()) << cutter.status();
    return cutter.ok() ? counting.call_count() : 0;
  }

  // In pieces of any size: what is left over begins the next one.
  static PieceCuts CutStream(GpuCutter& cutter, const std::shared_ptr<const BatchPlan>& plan,
                             Bytes stream, Random& random) {
    PieceCuts all;
    std::size_t piece_bytes = 0;
    while (true) {
      const std::size_t most = std::min(stream.size(), cutter.max_piece_bytes());
      piece_bytes = std::min(most, piece_bytes + AnySize(random, most));
      const bool is_end = piece_bytes == stream.size();
      const PieceCuts cuts = CutAndWait(cutter, plan, stream.first(piece_bytes), is_end);
      all.chunks.insert(all.chunks.end(), cuts.chunks.begin(), cuts.chunks.end());
      const std::size_t cut_bytes = std::min(cuts.size_bytes(), stream.size());
      stream = stream.subspan(cut_bytes);
      piece_bytes -= std::min(cut_bytes, piece_bytes);
      // Cuts that are wrong may leave something at the end, or all of it.
      if (is_end || (cut_bytes == 0 && piece_bytes == most)) return all;
    }
  }

  const FuzzData data_{kMostBatchBytes};
  Figures figures_;
};

TEST(EmulatorFuzz, CutsAreTheCpusWhateverHappens) {
  const char* const seconds = std::getenv("KERF_GPU_FUZZ_SECONDS");
  ASSERT_NE(seconds, nullptr);
  const char* const round_count = std::getenv("KERF_GPU_FUZZ_ROUNDS");
  const std::uint64_t most_rounds =
      round_count == nullptr ? ~std::uint64_t{0} : std::strtoull(round_count, nullptr, 10);
  const auto deadline = Clock::now() + std::chrono::seconds(std::strtoull(seconds, nullptr, 10));
  Rounds rounds;
  std::uint64_t round = 0;
  for (; round < most_rounds && (round == 0 || Clock::now() < deadline); ++round) {
    const std::uint64_t seed = TestSeed() + round;
    SCOPED_TRACE(
        Cat("round ", round, "; KERF_GPU_FUZZ_ROUNDS=1 KERF_TEST_SEED=", seed, " replays it"));
    rounds.Run(seed);
    if (HasFailure()) return;
  }
  const Figures& figures = rounds.figures();
  std::cout << round << " rounds (" << figures.batch_round_count << " of batches, "
            << figures.stream_round_count << " of streams), " << figures.byte_count << " bytes, "
            << figures.lost_device_count << " devices lost on the way, "
            << figures.refused_device_count << " at the start\n";
}

}  // namespace
}  // namespace kerf::cuda
