// Golden vectors through an emulated device.
#include "kernels/cuda/check/device_vectors.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/strings.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/check/golden_vectors.h"
#include "kernels/cuda/plugin/emulated_source.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {
namespace {

using Json = nlohmann::ordered_json;

// The emulator is slow: those of random and of equal bytes, of the algorithms that have kernels,
// a profile of each.
std::string SomeVectors() {
  Json vectors = Json::parse(GoldenVectors());
  Json some = Json::array();
  for (const Json& entry : vectors["cases"]) {
    const std::string kind = entry["input"]["kind"];
    const std::string profile = entry["profile"];
    const bool is_small = entry["input"]["length"] == 1;
    const bool is_wanted = profile.starts_with("gear:min=65,") || profile.starts_with("ram:") ||
                           profile.starts_with("fastcdc:min=511,") ||
                           profile.starts_with("fastcdc2020:min=8192,") ||
                           profile.starts_with("maxp-local:window=448");
    if (is_small || (is_wanted && (kind == "constant" || kind == "random"))) some.push_back(entry);
  }
  vectors["cases"] = std::move(some);
  return vectors.dump();
}

GpuCutterOptions Options() {
  GpuCutterOptions options;
  options.slot_count = 1;
  options.slot = {.batch_bytes = 512 << 10, .piece_count = 8};
  options.batch_timeout = std::chrono::minutes(2);
  options.audit_period = 0;
  options.min_piece_bytes = 0;
  return options;
}

TEST(DeviceVectorsTest, ARightDevicePasses) {
  const auto count = CheckDeviceVectors(EmulatedSource(TestSeed()), Options(), SomeVectors());
  ASSERT_TRUE(count.ok()) << count.status();
  // Named profiles of five algorithms on one byte, and more.
  EXPECT_GT(*count, 15u);
}

TEST(DeviceVectorsTest, WhatADeviceCannotRunIsNotChecked) {
  const auto all = CheckDeviceVectors(EmulatedSource(TestSeed()), Options(), SomeVectors());
  const Fault refuses{.kind = Fault::Kind::kRefuses, .kernel = KernelList::NumberOf<RabinMarks>()};
  const auto some =
      CheckDeviceVectors(EmulatedSource(TestSeed(), refuses), Options(), SomeVectors());
  ASSERT_TRUE(all.ok() && some.ok()) << some.status();
  EXPECT_LT(*some, *all);
  EXPECT_GT(*some, *all / 2);
}

TEST(DeviceVectorsTest, AWrongDigestIsFound) {
  std::string vectors = SomeVectors();
  const std::string_view key = "\"sha256\":\"";
  // Of the last case, of one byte, every profile's is the same.
  for (std::size_t at = vectors.find(key); at != std::string::npos;
       at = vectors.find(key, at + 1)) {
    char& digit = vectors[at + key.size()];
    digit = digit == '7' ? '8' : '7';
  }
  const auto count = CheckDeviceVectors(EmulatedSource(TestSeed()), Options(), vectors);
  EXPECT_TRUE(absl::IsDataLoss(count.status())) << count.status();
}

TEST(DeviceVectorsTest, ALostDeviceIsNotTakenForARightOne) {
  const auto lost = CheckDeviceVectors(EmulatedSource(TestSeed(), {Fault::Kind::kLost, 2'000}),
                                       Options(), SomeVectors());
  EXPECT_FALSE(lost.ok());
  EXPECT_FALSE(absl::IsDataLoss(lost.status())) << lost.status();
  GpuCutterOptions options = Options();
  options.slot.batch_bytes = 64 << 10;
  const auto small = CheckDeviceVectors(EmulatedSource(TestSeed()), options, SomeVectors());
  EXPECT_TRUE(absl::IsFailedPrecondition(small.status())) << small.status();
}

}  // namespace
}  // namespace kerf::cuda
