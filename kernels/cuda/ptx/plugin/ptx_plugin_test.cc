// The plug-in of PTX by itself, without a kernel: its devices, and what becomes of one whose
// process ends. Under kerfd: //e2e:ptx_gpu_test.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/plugin/plugin.h"

namespace kerf::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

Plugin LoadWith(const char* devices) {
  KERF_CHECK(setenv("KERF_PTX_DEVICES", devices, /*overwrite=*/1) == 0);
  const auto plugin = Plugin::Load("kernels/cuda/ptx/plugin/libkerf_ptx.so");
  KERF_CHECK(plugin.ok());
  return *plugin;
}

// That this one has started and not waited for.
std::vector<pid_t> Children() {
  std::ifstream file("/proc/self/task/" + std::to_string(gettid()) + "/children");
  std::vector<pid_t> children;
  for (pid_t child = 0; file >> child;) children.push_back(child);
  return children;
}

absl::Status WaitFor(Device& device, QueueId queue) {
  absl::StatusOr<bool> is_done = false;
  while (is_done.ok() && !*is_done) is_done = device.IsDone(queue);
  return is_done.status();
}

// A queue, with memory on both sides.
struct Copying {
  explicit Copying(Device& device)
      : queue(*device.MakeQueue()),
        from(*device.AllocatePinned(kBytes)),
        to(*device.AllocatePinned(2 * kBytes)),
        place(*device.Allocate(kBytes)) {}

  static constexpr std::size_t kBytes = 100'000;
  QueueId queue;
  std::span<std::uint8_t> from;
  std::span<std::uint8_t> to;
  std::uint8_t* place;
};

TEST(PtxPluginTest, HasTheDevicesOfTheText) {
  EXPECT_EQ(*LoadWith("").CountDevices(), 1u);
  const Plugin plugin = LoadWith(";;shared=4096");
  EXPECT_EQ(*plugin.CountDevices(), 3u);
  const auto device = plugin.Open(2);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_EQ((*device)->info().name, "PTX");
  EXPECT_GT((*device)->info().memory_bytes, 0u);
  EXPECT_TRUE(absl::IsUnavailable(plugin.Open(3).status()));
  const Plugin none = LoadWith("well");
  EXPECT_THAT(none.CountDevices().status().ToString(), HasSubstr("'well' says nothing"));
  EXPECT_THAT(none.Open(0).status().ToString(), HasSubstr("'well' says nothing"));
  // Whoever only counted is gone, and whoever was refused.
  EXPECT_THAT(Children(), SizeIs(1));
}

// Of two queues of one device, and of another device; each gets back what is its own, in the order
// in which it was asked for, whoever is done first.
TEST(PtxPluginTest, CopiesBothWays) {
  constexpr std::size_t kEndBytes = 7;
  const Plugin plugin = LoadWith("seed=5;seed=6");
  const auto one = *plugin.Open(0);
  const auto other = *plugin.Open(1);
  std::vector<std::pair<Device*, Copying>> all;
  for (Device* const device : {one.get(), one.get(), other.get()}) {
    all.emplace_back(device, Copying(*device));
  }
  std::uint8_t value = 0;
  for (auto& [device, copying] : all) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(copying.place) % 256, 0u);
    std::fill(copying.from.begin(), copying.from.end(), ++value);
    std::fill(copying.to.begin(), copying.to.end(), std::uint8_t{0xff});
    copying.from.back() = 0;
    ASSERT_TRUE(device->CopyIn(copying.queue, copying.place, copying.from).ok());
    const auto whole = copying.to.first(Copying::kBytes);
    ASSERT_TRUE(device->CopyOut(copying.queue, whole, copying.place).ok());
    const auto end = copying.to.subspan(Copying::kBytes, kEndBytes);
    ASSERT_TRUE(
        device->CopyOut(copying.queue, end, copying.place + Copying::kBytes - kEndBytes).ok());
  }
  std::reverse(all.begin(), all.end());
  for (auto& [device, copying] : all) {
    const absl::Status done = WaitFor(*device, copying.queue);
    ASSERT_TRUE(done.ok()) << done;
    std::vector<std::uint8_t> expected(copying.from.begin(), copying.from.end());
    expected.insert(expected.end(), copying.from.end() - kEndBytes, copying.from.end());
    expected.resize(copying.to.size(), 0xff);
    EXPECT_TRUE(std::equal(expected.begin(), expected.end(), copying.to.begin()));
  }
}

TEST(PtxPluginTest, MemoryThatIsNotThereIsNoLoss) {
  const auto device = *LoadWith("").Open(0);
  EXPECT_TRUE(absl::IsResourceExhausted(device->Allocate(std::size_t{1} << 60).status()));
  EXPECT_TRUE(absl::IsResourceExhausted(device->AllocatePinned(std::size_t{1} << 60).status()));
  EXPECT_TRUE(device->Allocate(1 << 20).ok());
}

TEST(PtxPluginTest, MomentsAndGraphs) {
  const auto device = *LoadWith("").Open(0);
  const QueueId queue = *device->MakeQueue();
  const MomentId begun = *device->MakeMoment();
  const MomentId ended = *device->MakeMoment();
  ASSERT_TRUE(device->BeginGraph(queue).ok());
  ASSERT_TRUE(device->Note(queue, ended).ok());
  const auto graph = device->EndGraph(queue);
  ASSERT_TRUE(graph.ok()) << graph.status();
  const Copying copying(*device);
  std::fill(copying.from.begin(), copying.from.end(), std::uint8_t{1});
  ASSERT_TRUE(device->Note(queue, begun).ok());
  ASSERT_TRUE(device->CopyIn(queue, copying.place, copying.from).ok());
  ASSERT_TRUE(device->RunGraph(queue, *graph).ok());
  ASSERT_TRUE(WaitFor(*device, queue).ok());
  // The clock of an emulated device: a nanosecond a byte.
  EXPECT_EQ(*device->Between(begun, ended), std::chrono::nanoseconds(Copying::kBytes));
  EXPECT_TRUE(device->DropGraph(*graph).ok());
  ASSERT_TRUE(device->BeginGraph(queue).ok());
  EXPECT_TRUE(device->CancelGraph(queue).ok());
}

TEST(PtxPluginTest, ADeviceWhoseProcessEndsIsLost) {
  const Plugin plugin = LoadWith(";");
  auto lost = *plugin.Open(0);
  const auto children = Children();
  ASSERT_THAT(children, SizeIs(1));
  const auto well = *plugin.Open(1);
  const QueueId queue = *lost->MakeQueue();
  ASSERT_EQ(kill(children.front(), SIGKILL), 0);
  for (int call = 0; call < 2; ++call) {
    const auto is_done = lost->IsDone(queue);
    EXPECT_TRUE(absl::IsInternal(is_done.status())) << is_done.status();
    EXPECT_THAT(is_done.status().ToString(), HasSubstr("the process of the device has ended"));
  }
  EXPECT_FALSE(lost->AllocatePinned(1 << 20).ok());
  EXPECT_TRUE(well->MakeQueue().ok());
  lost.reset();
  EXPECT_THAT(Children(), SizeIs(1));
}

TEST(PtxPluginTest, ProcessesEndWithTheirDevices) {
  const Plugin plugin = LoadWith(";");
  auto first = *plugin.Open(0);
  auto second = *plugin.Open(1);
  EXPECT_THAT(Children(), SizeIs(2));
  // Of its socket the other one has nothing.
  first.reset();
  EXPECT_THAT(Children(), SizeIs(1));
  EXPECT_TRUE(second->MakeQueue().ok());
  second.reset();
  EXPECT_THAT(Children(), IsEmpty());
}

}  // namespace
}  // namespace kerf::cuda
