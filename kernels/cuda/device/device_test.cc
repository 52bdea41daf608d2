// The devices of the tests: commands of a queue run in order, late, and go wrong when told to.
#include "kernels/cuda/device/device.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/device/kernel_types.h"
#include "kernels/cuda/launch/tile_sum.h"

namespace kerf::cuda {
namespace {

using Sum = TileSum<false>;
using Kernels = KernelTypes<Sum>;

constexpr std::uint32_t kTileCount = 3;
constexpr std::size_t kNumberCount = kTileCount * 64;

std::unique_ptr<Device> MakeEmulated(std::optional<std::uint64_t> seed,
                                     std::size_t memory_bytes = 1 << 20) {
  return std::make_unique<EmulatedDevice>(
      EmulatedDeviceOptions{EmulatedKernelsOf(Kernels()), memory_bytes, seed});
}

std::span<std::uint32_t> WordsOf(std::span<std::uint8_t> bytes) {
  return {reinterpret_cast<std::uint32_t*>(bytes.data()), bytes.size() / 4};
}

std::uint32_t* WordsAt(std::uint8_t* bytes) { return reinterpret_cast<std::uint32_t*>(bytes); }

// One queue that sums `kTileCount` tiles of what is in pinned memory.
struct Summing {
  static absl::StatusOr<Summing> Make(Device& device) {
    Summing made;
    KERF_ASSIGN_OR_RETURN(made.queue, device.MakeQueue());
    KERF_ASSIGN_OR_RETURN(made.in, device.AllocatePinned(4 * (kNumberCount + 1)));
    KERF_ASSIGN_OR_RETURN(made.out, device.AllocatePinned(4 * kTileCount));
    KERF_ASSIGN_OR_RETURN(made.device_in, device.Allocate(made.in.size()));
    KERF_ASSIGN_OR_RETURN(made.device_out, device.Allocate(made.out.size()));
    return made;
  }

  Sum::Args args() const {
    return {WordsAt(device_in), WordsAt(device_out), WordsAt(device_in) + kNumberCount, 7};
  }
  void Fill(std::uint32_t first) const {
    const auto words = WordsOf(in);
    std::iota(words.begin(), words.end() - 1, first);
    words.back() = kTileCount;
  }
  // The sum of tile 0, or nothing if the other ones do not fit it.
  std::optional<std::uint32_t> Result() const {
    const auto sums = WordsOf(out);
    for (std::uint32_t tile = 1; tile < kTileCount; ++tile) {
      if (sums[tile] != sums[0] + 64 * 64 * tile) return std::nullopt;
    }
    return sums[0];
  }

  QueueId queue{};
  std::span<std::uint8_t> in;
  std::span<std::uint8_t> out;
  std::uint8_t* device_in = nullptr;
  std::uint8_t* device_out = nullptr;
};

absl::Status RunOnce(Device& device, const Summing& sum) {
  KERF_RETURN_IF_ERROR(device.CopyIn(sum.queue, sum.device_in, sum.in));
  KERF_RETURN_IF_ERROR((LaunchOf<Kernels, Sum>(device, sum.queue, sum.args())));
  return device.CopyOut(sum.queue, sum.out, sum.device_out);
}

absl::Status WaitFor(Device& device, QueueId queue) {
  while (true) {
    KERF_ASSIGN_OR_RETURN(const bool is_done, device.IsDone(queue));
    if (is_done) return absl::OkStatus();
  }
}

constexpr std::uint32_t kSumOfFirstTile = 64 * 63 / 2 + 7;

TEST(EmulatedDeviceTest, QueuesRunInOrderAndBesideEachOther) {
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto device = MakeEmulated(TestSeed() + round);
    const Summing first = *Summing::Make(*device);
    const Summing second = *Summing::Make(*device);
    first.Fill(0);
    second.Fill(1);
    ASSERT_TRUE(RunOnce(*device, first).ok());
    ASSERT_TRUE(RunOnce(*device, second).ok());
    ASSERT_TRUE(WaitFor(*device, second.queue).ok());
    EXPECT_EQ(second.Result(), kSumOfFirstTile + 64);
    ASSERT_TRUE(WaitFor(*device, first.queue).ok());
    EXPECT_EQ(first.Result(), kSumOfFirstTile);
  }
}

TEST(EmulatedDeviceTest, NothingHasRunBeforeItIsAskedFor) {
  const auto device = MakeEmulated(std::nullopt);
  const Summing sum = *Summing::Make(*device);
  sum.Fill(0);
  ASSERT_TRUE(RunOnce(*device, sum).ok());
  EXPECT_EQ(sum.Result(), std::nullopt);
  // Too early: the copy has not been made.
  sum.Fill(5);
  ASSERT_TRUE(WaitFor(*device, sum.queue).ok());
  EXPECT_EQ(sum.Result(), kSumOfFirstTile + 5 * 64);
}

TEST(EmulatedDeviceTest, AGraphRunsAgainAndAgainInAnyQueue) {
  const auto device = MakeEmulated(TestSeed());
  const Summing sum = *Summing::Make(*device);
  const QueueId other = *device->MakeQueue();
  ASSERT_TRUE(device->BeginGraph(other).ok());
  ASSERT_TRUE((LaunchOf<Kernels, Sum>(*device, other, sum.args())).ok());
  const GraphId graph = *device->EndGraph(other);
  for (std::uint32_t round = 0; round < 3; ++round) {
    sum.Fill(round);
    ASSERT_TRUE(device->CopyIn(sum.queue, sum.device_in, sum.in).ok());
    ASSERT_TRUE(device->RunGraph(sum.queue, graph).ok());
    ASSERT_TRUE(device->CopyOut(sum.queue, sum.out, sum.device_out).ok());
    ASSERT_TRUE(WaitFor(*device, sum.queue).ok());
    EXPECT_EQ(sum.Result(), kSumOfFirstTile + 64 * round);
  }
}

TEST(EmulatedDeviceTest, MomentsTellHowLongCommandsTook) {
  const auto device = MakeEmulated(TestSeed());
  const Summing sum = *Summing::Make(*device);
  sum.Fill(0);
  const MomentId begun = *device->MakeMoment();
  const MomentId copied = *device->MakeMoment();
  const MomentId summed = *device->MakeMoment();
  const auto between = [&](MomentId from, MomentId to) { return *device->Between(from, to); };
  ASSERT_TRUE(device->BeginGraph(sum.queue).ok());
  ASSERT_TRUE((LaunchOf<Kernels, Sum>(*device, sum.queue, sum.args())).ok());
  ASSERT_TRUE(device->Note(sum.queue, summed).ok());
  const GraphId graph = *device->EndGraph(sum.queue);
  std::chrono::nanoseconds all{0};
  for (int round = 0; round < 2; ++round) {
    if (round == 0) {
      ASSERT_TRUE(device->Note(sum.queue, begun).ok());
    }
    ASSERT_TRUE(device->CopyIn(sum.queue, sum.device_in, sum.in).ok());
    ASSERT_TRUE(device->Note(sum.queue, copied).ok());
    ASSERT_TRUE(device->RunGraph(sum.queue, graph).ok());
    ASSERT_TRUE(WaitFor(*device, sum.queue).ok());
    EXPECT_EQ(between(copied, summed), EmulatedDevice::kLaunchTime);
    all += std::chrono::nanoseconds(sum.in.size()) + EmulatedDevice::kLaunchTime;
    // Each run notes it anew.
    EXPECT_EQ(between(begun, summed), all);
  }
}

TEST(EmulatedDeviceTest, ADroppedGraphGivesItsNumberBack) {
  const auto device = MakeEmulated(TestSeed());
  const QueueId queue = *device->MakeQueue();
  const auto make = [&] {
    EXPECT_TRUE(device->BeginGraph(queue).ok());
    return *device->EndGraph(queue);
  };
  const GraphId first = make();
  const GraphId second = make();
  EXPECT_NE(first, second);
  ASSERT_TRUE(device->DropGraph(first).ok());
  EXPECT_EQ(make(), first);
  EXPECT_TRUE(device->RunGraph(queue, first).ok());
  EXPECT_TRUE(device->RunGraph(queue, second).ok());
}

TEST(EmulatedDeviceTest, MemoryEnds) {
  const auto device = MakeEmulated(std::nullopt, 1000);
  ASSERT_TRUE(device->Allocate(900).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(device->Allocate(101).status()));
  EXPECT_TRUE(device->Allocate(100).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(device->AllocatePinned(1001).status()));
}

TEST(EmulatedDeviceTest, ArraysAreTakenTogetherOrNotAtAll) {
  const auto device = MakeEmulated(std::nullopt, 1000);
  constexpr std::size_t kTooLarge[] = {500, 1, 500};
  EXPECT_TRUE(absl::IsResourceExhausted(device->AllocateArrays(kTooLarge).status()));
  constexpr std::size_t kSizes[] = {500, 0, 1, 499};
  const auto arrays = device->AllocateArrays(kSizes);
  ASSERT_TRUE(arrays.ok()) << arrays.status();
  ASSERT_EQ(arrays->size(), std::size(kSizes));
  for (std::size_t index = 0; index < arrays->size(); ++index) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>((*arrays)[index]) % 256, 0u);
    std::fill_n((*arrays)[index], kSizes[index], static_cast<std::uint8_t>(index));
  }
  EXPECT_EQ((*arrays)[0][499], 0);
  EXPECT_EQ((*arrays)[2][0], 2);
  EXPECT_TRUE(absl::IsResourceExhausted(device->Allocate(1).status()));
}

// Notes what it is told.
struct NotingWatcher final : MemoryWatcher {
  void Taken(std::span<const std::span<std::uint8_t>> arrays) override {
    for (const auto& array : arrays) taken.push_back(array);
  }
  void CopiedIn(std::span<const std::uint8_t> bytes) override { in.push_back(bytes.data()); }
  void CopiedOut(std::span<const std::uint8_t> bytes) override { out.push_back(bytes.data()); }

  std::vector<std::span<std::uint8_t>> taken;
  std::vector<const std::uint8_t*> in;
  std::vector<const std::uint8_t*> out;
};

TEST(EmulatedDeviceTest, TellsOfItsMemoryAndIsAskedWhetherItIsWell) {
  NotingWatcher watcher;
  absl::Status health;
  EmulatedDevice device({.kernels = EmulatedKernelsOf(Kernels()),
                         .gap_bytes = 4096,
                         .watcher = &watcher,
                         .health = [&health] { return health; },
                         .name = "watched"});
  EXPECT_EQ(device.info().name, "watched");
  const Summing sum = *Summing::Make(device);
  ASSERT_EQ(watcher.taken.size(), 2u);
  EXPECT_EQ(watcher.taken[0].data(), sum.device_in);
  EXPECT_EQ(watcher.taken[0].size(), sum.in.size());
  ASSERT_TRUE(device.CopyIn(sum.queue, sum.device_in, sum.in).ok());
  ASSERT_TRUE(device.CopyOut(sum.queue, sum.out, sum.device_out).ok());
  EXPECT_TRUE(watcher.in.empty());
  EXPECT_TRUE(*device.IsDone(sum.queue));
  EXPECT_EQ(watcher.in, std::vector<const std::uint8_t*>{sum.device_in});
  EXPECT_EQ(watcher.out, std::vector<const std::uint8_t*>{sum.device_out});
  health = absl::InternalError("it is not");
  EXPECT_EQ(device.IsDone(sum.queue).status(), health);
}

TEST(EmulatedDeviceTest, RefusesKernelsThatNeedMoreSharedMemory) {
  for (const bool fits : {true, false}) {
    EmulatedDevice device({.kernels = EmulatedKernelsOf(Kernels()),
                           .shared_bytes = sizeof(Sum::Shared) - (fits ? 0 : 1)});
    const Summing sum = *Summing::Make(device);
    const absl::Status launched = LaunchOf<Kernels, Sum>(device, sum.queue, sum.args());
    EXPECT_EQ(launched.ok(), fits);
    EXPECT_EQ(absl::IsFailedPrecondition(launched), !fits) << launched;
  }
}

TEST(EmulatedDeviceTest, ARecordingThatIsCancelledLeavesNothing) {
  EmulatedDevice device({.kernels = EmulatedKernelsOf(Kernels()), .shared_bytes = 0});
  const Summing sum = *Summing::Make(device);
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(device.BeginGraph(sum.queue).ok());
    EXPECT_FALSE((LaunchOf<Kernels, Sum>(device, sum.queue, sum.args()).ok()));
    ASSERT_TRUE(device.CancelGraph(sum.queue).ok());
    EXPECT_EQ(device.graph_count(), 0u);
  }
  ASSERT_TRUE(device.BeginGraph(sum.queue).ok());
  const GraphId graph = *device.EndGraph(sum.queue);
  const auto before = device.clock();
  ASSERT_TRUE(device.RunGraph(sum.queue, graph).ok());
  ASSERT_TRUE(WaitFor(device, sum.queue).ok());
  EXPECT_EQ(device.clock(), before);
}

TEST(EmulatedDeviceTest, LoadsItsKernelsOnce) {
  using std::chrono::milliseconds;
  using Clock = std::chrono::steady_clock;
  EmulatedDevice device({.kernels = EmulatedKernelsOf(Kernels()), .load_time = milliseconds(200)});
  const Summing sum = *Summing::Make(device);
  Clock::time_point start = Clock::now();
  ASSERT_TRUE((LaunchOf<Kernels, Sum>(device, sum.queue, sum.args()).ok()));
  EXPECT_GE(Clock::now() - start, milliseconds(200));
  start = Clock::now();
  ASSERT_TRUE(device.LoadKernels().ok());
  EXPECT_LT(Clock::now() - start, milliseconds(200));
}

TEST(EmulatedDeviceTest, CountsWhatNobodyHasWritten) {
  EmulatedDevice device({.kernels = EmulatedKernelsOf(Kernels())});
  const Summing sum = *Summing::Make(device);
  sum.Fill(0);
  ASSERT_TRUE(RunOnce(device, sum).ok());
  ASSERT_TRUE(WaitFor(device, sum.queue).ok());
  EXPECT_EQ(device.unwritten_word_count(), 0u);
  std::uint8_t* const anything = *device.Allocate(sum.out.size());
  ASSERT_TRUE(device.CopyOut(sum.queue, sum.out, anything).ok());
  ASSERT_TRUE(WaitFor(device, sum.queue).ok());
  EXPECT_EQ(device.unwritten_word_count(), kTileCount);
}

TEST(FaultyDeviceTest, RefusesOneKernel) {
  FaultyDevice device(MakeEmulated(std::nullopt), {.kind = Fault::Kind::kRefuses, .kernel = 0});
  const Summing sum = *Summing::Make(device);
  const auto refused = LaunchOf<Kernels, Sum>(device, sum.queue, sum.args());
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(device.CopyIn(sum.queue, sum.device_in, sum.in).ok());
  FaultyDevice other(MakeEmulated(std::nullopt), {.kind = Fault::Kind::kRefuses, .kernel = 1});
  const Summing others = *Summing::Make(other);
  EXPECT_TRUE((LaunchOf<Kernels, Sum>(other, others.queue, others.args()).ok()));
}

TEST(FaultyDeviceTest, IsLostAtTheCallThatWasChosenAndStaysSo) {
  for (std::uint64_t call = 0; call < 9; ++call) {
    FaultyDevice device(MakeEmulated(std::nullopt), {Fault::Kind::kLost, call});
    const auto sum = Summing::Make(device);
    const bool is_made = call > 4;
    EXPECT_EQ(sum.ok(), is_made) << call;
    if (!is_made) continue;
    const absl::Status ran = RunOnce(device, *sum);
    EXPECT_EQ(ran.ok(), call > 7) << call;
    EXPECT_TRUE(absl::IsInternal(device.IsDone(sum->queue).status()));
    EXPECT_EQ(device.late_call_count(), call > 7 ? 0u : 1u);
  }
}

TEST(FaultyDeviceTest, IsSilent) {
  FaultyDevice device(MakeEmulated(std::nullopt), {Fault::Kind::kSilent, 6});
  const Summing sum = *Summing::Make(device);
  ASSERT_TRUE(RunOnce(device, sum).ok());
  for (int asked = 0; asked < 10; ++asked) EXPECT_FALSE(*device.IsDone(sum.queue));
}

TEST(FaultyDeviceTest, BringsWrongBitsFromThenOn) {
  // What the sum and its first copy take, and then the two of the second.
  FaultyDevice counting(MakeEmulated(std::nullopt), {});
  const Summing counted = *Summing::Make(counting);
  counted.Fill(0);
  ASSERT_TRUE(RunOnce(counting, counted).ok());
  ASSERT_TRUE(WaitFor(counting, counted.queue).ok());
  FaultyDevice device(MakeEmulated(std::nullopt), {Fault::Kind::kWrongBits, counting.call_count()});
  const Summing sum = *Summing::Make(device);
  for (const bool is_wrong : {false, true, true}) {
    sum.Fill(0);
    ASSERT_TRUE(RunOnce(device, sum).ok());
    ASSERT_TRUE(WaitFor(device, sum.queue).ok());
    EXPECT_EQ(sum.Result() != kSumOfFirstTile, is_wrong);
  }
}

// Of one batch two copies come back, of which the last one is as long as a digest or not.
TEST(FaultyDeviceTest, OfTheLastDigestOneBitIsWrong) {
  for (const std::size_t last_bytes : {std::size_t{31}, std::size_t{64}}) {
    FaultyDevice device(MakeEmulated(std::nullopt), {.kind = Fault::Kind::kWrongDigest});
    const QueueId queue = *device.MakeQueue();
    const auto zeros = *device.AllocatePinned(64);
    const auto first = *device.AllocatePinned(64);
    const auto last = *device.AllocatePinned(last_bytes);
    std::uint8_t* const place = *device.Allocate(64);
    std::fill(zeros.begin(), zeros.end(), std::uint8_t{0});
    ASSERT_TRUE(device.CopyIn(queue, place, zeros).ok());
    ASSERT_TRUE(device.CopyOut(queue, first, place).ok());
    ASSERT_TRUE(device.CopyOut(queue, last, place).ok());
    ASSERT_TRUE(WaitFor(device, queue).ok());
    EXPECT_EQ(std::count(first.begin(), first.end(), 0), 64);
    EXPECT_EQ(last.back(), last_bytes < 32 ? 0 : 1);
    EXPECT_EQ(std::count(last.begin(), last.end() - 1, 0),
              static_cast<std::ptrdiff_t>(last_bytes) - 1);
  }
}

TEST(FaultyDeviceTest, IsDoneLate) {
  constexpr std::chrono::milliseconds kDelay{30};
  FaultyDevice device(MakeEmulated(std::nullopt), {.kind = Fault::Kind::kSlow, .delay = kDelay});
  const Summing sum = *Summing::Make(device);
  for (int round = 0; round < 2; ++round) {
    sum.Fill(0);
    ASSERT_TRUE(RunOnce(device, sum).ok());
    const auto begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(WaitFor(device, sum.queue).ok());
    EXPECT_GE(std::chrono::steady_clock::now() - begin, kDelay);
    EXPECT_EQ(sum.Result(), kSumOfFirstTile);
  }
}

// What one queue has waited for is no time of another one's.
TEST(FaultyDeviceTest, EachQueueIsDoneLate) {
  constexpr std::chrono::milliseconds kDelay{30};
  FaultyDevice device(MakeEmulated(std::nullopt), {.kind = Fault::Kind::kSlow, .delay = kDelay});
  const QueueId first = *device.MakeQueue();
  const QueueId second = *device.MakeQueue();
  EXPECT_FALSE(*device.IsDone(first));
  std::this_thread::sleep_for(kDelay);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(WaitFor(device, second).ok());
  EXPECT_GE(std::chrono::steady_clock::now() - begin, kDelay);
  EXPECT_TRUE(*device.IsDone(first));
}

TEST(FaultyDeviceTest, CountsFromWhenItIsArmed) {
  bool is_armed = false;
  FaultyDevice device(MakeEmulated(std::nullopt), {Fault::Kind::kLost, 1},
                      [&] { return is_armed; });
  for (int call = 0; call < 5; ++call) EXPECT_TRUE(device.MakeQueue().ok());
  EXPECT_EQ(device.call_count(), 0u);
  is_armed = true;
  EXPECT_TRUE(device.MakeQueue().ok());
  is_armed = false;
  EXPECT_TRUE(absl::IsInternal(device.MakeQueue().status()));
}

TEST(FaultyDeviceTest, HasNoClock) {
  FaultyDevice device(MakeEmulated(std::nullopt), {Fault::Kind::kNoClock, 0});
  const QueueId queue = *device.MakeQueue();
  const MomentId moment = *device.MakeMoment();
  ASSERT_TRUE(device.Note(queue, moment).ok());
  ASSERT_TRUE(WaitFor(device, queue).ok());
  EXPECT_TRUE(absl::IsUnavailable(device.Between(moment, moment).status()));
}

TEST(FaultyDeviceTest, LacksMemoryOnce) {
  FaultyDevice device(MakeEmulated(std::nullopt), {Fault::Kind::kNoMemory, 1});
  EXPECT_TRUE(device.Allocate(8).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(device.AllocatePinned(8).status()));
  EXPECT_TRUE(device.AllocatePinned(8).ok());
}

}  // namespace
}  // namespace kerf::cuda
