// The fuzzing of a device, of an emulated one: it finds nothing where nothing is wrong, and
// whatever is.
#include "kernels/cuda/check/device_fuzz.h"

#include <cstdint>
#include <string>

#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/plugin/emulated_source.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;

FuzzOptions SmallOptions(std::uint64_t round_count) {
  FuzzOptions options;
  options.seed = TestSeed();
  options.max_round_count = round_count;
  options.slot = {.batch_bytes = 64 << 10, .piece_count = 32};
  options.batch_timeout = std::chrono::minutes(2);
  return options;
}

TEST(DeviceFuzzTest, ARightDevicePasses) {
  FuzzCounters counters;
  const absl::Status status = RunDeviceFuzz(EmulatedSource(TestSeed()), SmallOptions(60), counters);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(counters.round_count, 60u);
  EXPECT_GT(counters.byte_count, 0u);
  EXPECT_LT(counters.cpu_piece_count, counters.piece_count);
}

TEST(DeviceFuzzTest, ItEndsWithItsTime) {
  FuzzOptions options = SmallOptions(~std::uint64_t{0});
  options.max_time = std::chrono::milliseconds(0);
  FuzzCounters counters;
  EXPECT_TRUE(RunDeviceFuzz(EmulatedSource(TestSeed()), options, counters).ok());
  EXPECT_EQ(counters.round_count, 0u);
}

// The same rounds from the same seed, so that one can be replayed alone.
TEST(DeviceFuzzTest, ARoundIsMadeOfItsSeed) {
  FuzzCounters counters[3];
  FuzzOptions options = SmallOptions(3);
  ASSERT_TRUE(RunDeviceFuzz(EmulatedSource(TestSeed()), options, counters[0]).ok());
  options.max_round_count = 2;
  ASSERT_TRUE(RunDeviceFuzz(EmulatedSource(TestSeed() + 1), options, counters[1]).ok());
  options.seed += 2;
  options.max_round_count = 1;
  ASSERT_TRUE(RunDeviceFuzz(EmulatedSource(TestSeed() + 2), options, counters[2]).ok());
  EXPECT_EQ(counters[0].byte_count, counters[1].byte_count + counters[2].byte_count);
}

// Device 0 carries the batches that are laid out by hand, device 1 the streams.
TEST(DeviceFuzzTest, AWrongBitIsFound) {
  Random random(TestSeed());
  for (const std::uint64_t device : {std::uint64_t{0}, std::uint64_t{1}}) {
    for (int time = 0; time < 4; ++time) {
      // Behind the self-test of the second, which would find it.
      const std::uint64_t call = (device == 0 ? 7 : 2'000) + random.Below(40);
      FuzzCounters counters;
      const absl::Status status =
          RunDeviceFuzz(EmulatedSource(TestSeed(), {Fault::Kind::kWrongBits, call}, device),
                        SmallOptions(60), counters);
      EXPECT_FALSE(status.ok()) << "device " << device << ", call " << call;
      EXPECT_THAT(std::string(status.message()),
                  HasSubstr(Cat("made of seed ", TestSeed() + counters.round_count)));
    }
  }
}

TEST(DeviceFuzzTest, ALostDeviceIsNotTakenForARightOne) {
  for (const std::uint64_t device : {std::uint64_t{0}, std::uint64_t{1}}) {
    FuzzCounters counters;
    const absl::Status status =
        RunDeviceFuzz(EmulatedSource(TestSeed(), {Fault::Kind::kLost, 2'000}, device),
                      SmallOptions(60), counters);
    EXPECT_TRUE(absl::IsInternal(status)) << status;
  }
  FuzzOptions options = SmallOptions(60);
  options.batch_timeout = std::chrono::milliseconds(500);
  FuzzCounters counters;
  const absl::Status silent =
      RunDeviceFuzz(EmulatedSource(TestSeed(), {Fault::Kind::kSilent, 20}, 0), options, counters);
  EXPECT_THAT(std::string(silent.message()), HasSubstr("has not come back"));
  const absl::Status memory = RunDeviceFuzz(
      EmulatedSource(TestSeed(), {Fault::Kind::kNoMemory, 0}, 0), SmallOptions(1), counters);
  EXPECT_TRUE(absl::IsResourceExhausted(memory)) << memory;
}

}  // namespace
}  // namespace kerf::cuda
