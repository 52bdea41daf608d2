// Who writes behind an array is found, by the next one who asks whether it is done.
#include "kernels/cuda/check/red_zones.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/strings.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;

// A kernel that writes a byte where its argument says.
std::unique_ptr<Device> DeviceThatWrites() {
  EmulatedDeviceOptions options;
  const auto write = [](std::span<const std::uint8_t> args, const EmulatorOptions&) {
    std::uint8_t* place = nullptr;
    std::memcpy(static_cast<void*>(&place), args.data(), sizeof place);
    *place = 1;
  };
  options.kernels.push_back({write, 0});
  return std::make_unique<RedZones>(std::make_unique<EmulatedDevice>(std::move(options)));
}

absl::Status WriteAt(Device& device, QueueId queue, std::uint8_t* place) {
  std::uint8_t args[sizeof place];
  std::memcpy(args, static_cast<const void*>(&place), sizeof place);
  absl::Status status = device.Launch(queue, 0, args);
  for (bool is_done = false; status.ok() && !is_done;) {
    const absl::StatusOr<bool> answer = device.IsDone(queue);
    status = answer.status();
    is_done = answer.ok() && *answer;
  }
  return status;
}

TEST(RedZonesTest, WhatIsWrittenBehindAnArrayIsFound) {
  constexpr std::size_t kSizes[] = {1000, 256, 1};
  for (std::size_t index = 0; index < std::size(kSizes); ++index) {
    const auto device = DeviceThatWrites();
    const auto queue = device->MakeQueue();
    ASSERT_TRUE(queue.ok());
    const auto arrays = device->AllocateArrays(kSizes);
    ASSERT_TRUE(arrays.ok()) << arrays.status();
    std::uint8_t* const end = (*arrays)[index] + kSizes[index];
    EXPECT_TRUE(WriteAt(*device, *queue, end - 1).ok());
    const absl::Status next = WriteAt(*device, *queue, end);
    EXPECT_TRUE(absl::IsInternal(next)) << next;
    EXPECT_THAT(std::string(next.message()),
                HasSubstr(Cat("written 1 bytes behind an array of ", kSizes[index])));
  }
}

TEST(RedZonesTest, TheLastByteOfAZoneIsLookedAt) {
  const auto device = DeviceThatWrites();
  const auto queue = device->MakeQueue();
  const auto array = device->Allocate(256);
  ASSERT_TRUE(queue.ok() && array.ok());
  EXPECT_FALSE(WriteAt(*device, *queue, *array + 256 + RedZones::kZoneBytes - 1).ok());
}

TEST(RedZonesTest, ABatchWritesNothingThere) {
  RedZones device(
      std::make_unique<EmulatedDevice>(EmulatedDeviceOptions{.kernels = EmulatedKernelList()}));
  const auto slot = BatchSlot::Make(device, {.batch_bytes = 32 << 10, .piece_count = 2});
  ASSERT_TRUE(slot.ok()) << slot.status();
  const SlotPiece piece{0, 32 << 10, true};
  const auto plan = MakeBatchPlan(*ParseProfile("gear-8k"), DigestAlgorithm::kSha256);
  ASSERT_TRUE((*slot)->Start(plan, {&piece, 1}).ok());
  absl::StatusOr<bool> is_done = false;
  while (is_done.ok() && !*is_done) is_done = (*slot)->IsDone();
  EXPECT_TRUE(is_done.ok()) << is_done.status();
}

}  // namespace
}  // namespace kerf::cuda
