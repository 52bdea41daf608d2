// Which GPUs are taken, of emulated ones, and what is said where one cannot be had.
#include "server/open_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/strings.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf {
namespace {

using cuda::Fault;
using testing::ElementsAre;
using testing::HasSubstr;

cuda::GpuCutterOptions SmallOptions() {
  cuda::GpuCutterOptions options;
  options.slot_count = 1;
  options.slot = {.batch_bytes = 32 << 10, .piece_count = 4};
  options.batch_timeout = std::chrono::minutes(2);
  options.min_piece_bytes = 0;
  return options;
}

// A GPU for each fault.
absl::StatusOr<std::unique_ptr<cuda::GpuSet>> Open(const std::vector<Fault>& faults,
                                                   const GpuSettings& settings) {
  const GpuSource source{
      static_cast<std::uint32_t>(faults.size()),
      [&](std::uint32_t number) -> absl::StatusOr<std::unique_ptr<cuda::Device>> {
        return std::make_unique<cuda::FaultyDevice>(
            std::make_unique<cuda::EmulatedDevice>(
                cuda::EmulatedDeviceOptions{.kernels = cuda::EmulatedKernelList()}),
            faults[number]);
      }};
  return OpenGpusOf(source, settings, SmallOptions(), [](std::uint32_t, const absl::Status&) {});
}

std::vector<std::uint32_t> NumbersOf(const cuda::GpuSet& gpus) {
  std::vector<std::uint32_t> numbers;
  for (const cuda::GpuState& state : gpus.states()) numbers.push_back(state.number);
  return numbers;
}

constexpr Fault kWell{};
constexpr Fault kSick{Fault::Kind::kWrongBits, 0};

TEST(OpenGpusTest, AllOrThoseThatAreNamed) {
  GpuSettings settings;
  const auto all = Open({kWell, kWell, kWell}, settings);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_THAT(NumbersOf(**all), ElementsAre(0, 1, 2));
  settings.devices = {2, 0};
  const auto named = Open({kWell, kSick, kWell}, settings);
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(NumbersOf(**named), ElementsAre(0, 2));
}

TEST(OpenGpusTest, NoneIsAnError) {
  const auto none = Open({}, GpuSettings());
  EXPECT_THAT(none.status().ToString(), HasSubstr("this machine has no GPU"));
}

TEST(OpenGpusTest, OneThatIsWrongIsLeftOut) {
  for (const GpuUse use : {GpuUse::kAuto, GpuUse::kRequire}) {
    GpuSettings settings;
    settings.use = use;
    const auto gpus = Open({kWell, kSick}, settings);
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    EXPECT_THAT(NumbersOf(**gpus), ElementsAre(0));
    const auto none = Open({kSick, kSick}, settings);
    EXPECT_TRUE(absl::IsUnavailable(none.status()));
    EXPECT_THAT(std::string(none.status().message()), HasSubstr("GPU 0: emulator: "));
  }
}

TEST(OpenGpusTest, OneThatCannotRunEverythingIsUsed) {
  const Fault refuses{.kind = Fault::Kind::kRefuses,
                      .kernel = cuda::KernelList::NumberOf<cuda::RabinMarks>()};
  GpuSettings settings;
  settings.devices = {0};
  settings.use = GpuUse::kRequire;
  testing::internal::CaptureStderr();
  const auto gpus = Open({refuses}, settings);
  const std::string logged = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  EXPECT_EQ((*gpus)->states()[0].left_out, "rabin: the test refuses this kernel");
  EXPECT_THAT(logged, HasSubstr("GPU 0 cannot run, and the CPU cuts rabin: the test refuses"));
}

TEST(OpenGpusTest, OneThatIsRequiredByItsNumberMustBeThere) {
  GpuSettings settings;
  settings.devices = {0, 1};
  for (const auto& faults : {std::vector<Fault>{kWell}, std::vector<Fault>{kWell, kSick}}) {
    settings.use = GpuUse::kAuto;
    const auto gpus = Open(faults, settings);
    ASSERT_TRUE(gpus.ok()) << gpus.status();
    EXPECT_THAT(NumbersOf(**gpus), ElementsAre(0));
    settings.use = GpuUse::kRequire;
    const auto required = Open(faults, settings);
    EXPECT_TRUE(absl::IsUnavailable(required.status()));
    EXPECT_THAT(std::string(required.status().message()), HasSubstr("GPU 1: "));
  }
}

}  // namespace
}  // namespace kerf
