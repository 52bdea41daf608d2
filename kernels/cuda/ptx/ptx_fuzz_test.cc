// Seeded batches and streams, by the PTX that ships, against the CPU. KERF_TEST_SEED replays.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>

#include "base/test_seed.h"
#include "kernels/cuda/check/device_fuzz.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/ptx/ptx_machine.h"

namespace kerf::cuda::ptx {
namespace {

TEST(PtxFuzzTest, CutsAsTheCpuWithoutAFinding) {
  const char* const rounds = std::getenv("KERF_PTX_FUZZ_ROUNDS");
  FuzzOptions options;
  options.seed = TestSeed();
  options.batch_timeout = std::chrono::minutes(10);
  options.max_time = std::chrono::hours(2);
  options.max_round_count = rounds != nullptr ? std::strtoull(rounds, nullptr, /*base=*/10) : 40;
  options.slot = {.batch_bytes = 256 << 10, .piece_count = 64};
  const auto open = []() -> absl::StatusOr<std::unique_ptr<Device>> {
    return std::make_unique<EmulatedDevice>(
        PtxDeviceOptions(std::make_shared<PtxMachine>(TestSeed())));
  };
  FuzzCounters counters;
  const absl::Status status = RunDeviceFuzz(open, options, counters);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(counters.round_count, options.max_round_count);
  EXPECT_GT(counters.piece_count, counters.cpu_piece_count);
}

}  // namespace
}  // namespace kerf::cuda::ptx
