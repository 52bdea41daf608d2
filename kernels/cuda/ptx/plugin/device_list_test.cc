#include "kernels/cuda/ptx/plugin/device_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda::ptx {
namespace {

using testing::HasSubstr;

TEST(DeviceListTest, NothingIsOneThatIsWell) {
  const auto devices = ReadDeviceList("");
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 1u);
  EXPECT_EQ(devices->front().fault.kind, Fault::Kind::kNone);
  EXPECT_EQ(devices->front().shared_bytes, kMaxSharedBytes);
}

TEST(DeviceListTest, SaysWhatIsWrongWithEach) {
  const std::string armed = testing::TempDir() + "/armed";
  std::filesystem::remove(armed);
  const auto devices = ReadDeviceList(
      "seed=7,shared=101376;;load_ms=30000;refuses=Sha256Chunks;fault=lost,call=3;"
      "fault=slow,delay_ms=20,armed=" +
      armed);
  ASSERT_TRUE(devices.ok()) << devices.status();
  ASSERT_EQ(devices->size(), 6u);
  EXPECT_EQ((*devices)[0].seed, 7u);
  EXPECT_EQ((*devices)[0].shared_bytes, 101'376u);
  EXPECT_EQ((*devices)[1].fault.kind, Fault::Kind::kNone);
  EXPECT_EQ((*devices)[2].load_time, std::chrono::seconds(30));
  EXPECT_EQ((*devices)[3].fault.kind, Fault::Kind::kRefuses);
  EXPECT_EQ((*devices)[3].fault.kernel, KernelList::NumberOf<Sha256Chunks>());
  EXPECT_EQ((*devices)[4].fault.kind, Fault::Kind::kLost);
  EXPECT_EQ((*devices)[4].fault.call, 3u);
  EXPECT_FALSE((*devices)[4].is_armed);
  EXPECT_EQ((*devices)[5].fault.delay, std::chrono::milliseconds(20));
  EXPECT_FALSE((*devices)[5].is_armed());
  std::ofstream(armed) << "now";
  EXPECT_TRUE((*devices)[5].is_armed());
}

TEST(DeviceListTest, WhatItDoesNotKnowIsAnError) {
  for (const std::string text : {"well", "fault=none", "refuses=Marks", "refuses=", "shared=much",
                                 "shared=-1", "load_ms=1s", "calls=3", "seed=1,;"}) {
    const auto devices = ReadDeviceList(text);
    EXPECT_TRUE(absl::IsInvalidArgument(devices.status())) << text;
    EXPECT_THAT(std::string(devices.status().message()), HasSubstr("says nothing of a device"));
  }
}

}  // namespace
}  // namespace kerf::cuda::ptx
