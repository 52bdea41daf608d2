// The golden vectors, by the PTX that ships.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>

#include "base/test_seed.h"
#include "kernels/cuda/check/device_vectors.h"
#include "kernels/cuda/check/golden_vectors.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/ptx/ptx_machine.h"

namespace kerf::cuda::ptx {
namespace {

TEST(PtxVectorsTest, AreMetWithoutAFinding) {
  GpuCutterOptions options;
  options.slot_count = 1;
  // Of the golden inputs the largest must fit.
  options.slot = {.batch_bytes = 2 << 20, .piece_count = 64};
  options.batch_timeout = std::chrono::minutes(10);
  options.audit_period = 0;
  options.min_piece_bytes = 0;
  const auto open = []() -> absl::StatusOr<std::unique_ptr<Device>> {
    return std::make_unique<EmulatedDevice>(
        PtxDeviceOptions(std::make_shared<PtxMachine>(TestSeed())));
  };
  const auto count = CheckDeviceVectors(open, options, GoldenVectors());
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_GE(*count, 162u);
}

}  // namespace
}  // namespace kerf::cuda::ptx
