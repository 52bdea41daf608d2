// The plug-in of CUDA as it is released, with and without a driver.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/plugin/plugin.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;

// Copies there and back, beside each other in two queues.
void CopiesBothWays(Device& device) {
  for (const std::uint8_t value : {std::uint8_t{1}, std::uint8_t{77}}) {
    const QueueId queue = *device.MakeQueue();
    const auto from = *device.AllocatePinned(1 << 20);
    const auto to = *device.AllocatePinned(1 << 20);
    std::uint8_t* const place = *device.Allocate(1 << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(place) % 256, 0u);
    std::fill(from.begin(), from.end(), value);
    const MomentId begun = *device.MakeMoment();
    const MomentId copied = *device.MakeMoment();
    ASSERT_TRUE(device.Note(queue, begun).ok());
    ASSERT_TRUE(device.CopyIn(queue, place, from).ok());
    ASSERT_TRUE(device.Note(queue, copied).ok());
    ASSERT_TRUE(device.CopyOut(queue, to, place).ok());
    absl::StatusOr<bool> is_done = false;
    while (is_done.ok() && !*is_done) is_done = device.IsDone(queue);
    ASSERT_TRUE(is_done.ok()) << is_done.status();
    EXPECT_TRUE(std::equal(from.begin(), from.end(), to.begin()));
    const auto time = device.Between(begun, copied);
    ASSERT_TRUE(time.ok()) << time.status();
    EXPECT_GT(*time, std::chrono::microseconds(1));
  }
  EXPECT_TRUE(absl::IsResourceExhausted(device.Allocate(std::size_t{1} << 60).status()));
  EXPECT_TRUE(device.Allocate(1 << 20).ok());
}

TEST(CudaPluginTest, SaysWhatItHas) {
  const auto plugin = Plugin::Load("kernels/cuda/plugin/libkerf_cuda.so");
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  const auto count = plugin->CountDevices();
  if (!count.ok()) {
    EXPECT_TRUE(absl::IsUnavailable(count.status()));
    EXPECT_THAT(std::string(count.status().message()), HasSubstr("CUDA"));
    const auto device = plugin->Open(0);
    EXPECT_TRUE(absl::IsUnavailable(device.status()));
    return;
  }
  for (std::uint32_t number = 0; number < *count; ++number) {
    const auto device = plugin->Open(number);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_GT((*device)->info().memory_bytes, 0u);
    const absl::Status loaded = (*device)->LoadKernels();
    EXPECT_TRUE(loaded.ok()) << loaded;
    CopiesBothWays(**device);
  }
  EXPECT_TRUE(absl::IsUnavailable(plugin->Open(*count).status()));
}

}  // namespace
}  // namespace kerf::cuda
