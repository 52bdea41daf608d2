// A driver that compiles the kernels first, in place of which an emulated device sleeps: no clock
// that is about batches runs meanwhile.
#include "kernels/cuda/pipeline/kernel_loading.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/gpu_cutter.h"
#include "kernels/cuda/plugin/emulated_kernels.h"

namespace kerf::cuda {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

std::unique_ptr<Device> Compiling(milliseconds load_time, Fault fault = {}) {
  return std::make_unique<FaultyDevice>(
      std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{
          .kernels = EmulatedKernelList(), .seed = TestSeed(), .load_time = load_time}),
      fault);
}

GpuCutterOptions SmallOptions() {
  GpuCutterOptions options;
  options.slot_count = 1;
  options.slot = {.batch_bytes = 32 << 10, .piece_count = 4};
  options.min_piece_bytes = 0;
  return options;
}

TEST(KernelLoadingTest, ADeviceThatCompilesFirstIsStarted) {
  GpuCutterOptions options = SmallOptions();
  // Of a test under a sanitizer no batch takes as long.
  options.batch_timeout = milliseconds(1'500);
  options.load.unnoticed = milliseconds(50);
  int slow_count = 0;
  options.on_slow_load = [&] { ++slow_count; };
  const auto cutter = GpuCutter::Start(Compiling(2 * options.batch_timeout), options);
  ASSERT_TRUE(cutter.ok()) << cutter.status();
  EXPECT_TRUE((*cutter)->left_out().is_empty());
  EXPECT_EQ(slow_count, 1);
}

TEST(KernelLoadingTest, NobodyIsToldWhereItIsQuick) {
  GpuCutterOptions options = SmallOptions();
  options.batch_timeout = std::chrono::minutes(2);
  options.load.unnoticed = std::chrono::minutes(1);
  options.on_slow_load = [] { ADD_FAILURE(); };
  EXPECT_TRUE(GpuCutter::Start(Compiling(milliseconds(0)), options).ok());
}

TEST(KernelLoadingTest, OneThatTakesForEverIsGivenUp) {
  int slow_count = 0;
  const auto loaded = LoadKernels(Compiling(milliseconds(500)),
                                  {milliseconds(20), milliseconds(10)}, [&] { ++slow_count; });
  EXPECT_TRUE(absl::IsDeadlineExceeded(loaded.status())) << loaded.status();
  EXPECT_EQ(slow_count, 1);
  GpuCutterOptions options = SmallOptions();
  options.load.most = milliseconds(20);
  const auto cutter = GpuCutter::Start(Compiling(milliseconds(500)), options);
  EXPECT_TRUE(absl::IsUnavailable(cutter.status()));
  EXPECT_THAT(std::string(cutter.status().message()),
              HasSubstr("emulator: its kernels are not ready to run"));
  // Their threads come back to devices that are still there.
  std::this_thread::sleep_for(milliseconds(700));
}

TEST(KernelLoadingTest, ALostDeviceSaysSo) {
  const auto loaded = LoadKernels(Compiling(milliseconds(0), {Fault::Kind::kLost, 0}));
  EXPECT_TRUE(absl::IsInternal(loaded.status())) << loaded.status();
}

TEST(KernelLoadingTest, OpensAndLoads) {
  const auto none = OpenLoaded([] { return absl::UnavailableError("none"); });
  EXPECT_TRUE(absl::IsUnavailable(none.status()));
  const auto device = OpenLoaded([] { return Compiling(milliseconds(300)); });
  ASSERT_TRUE(device.ok()) << device.status();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_TRUE((*device)->LoadKernels().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(300));
}

}  // namespace
}  // namespace kerf::cuda
