// Which GPUs are taken, of emulated ones, and what is said where one cannot be had.
#include "server/open_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/strings.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/faulty_device.h"
#include "kernels/cuda/pipeline/batch_slot.h"
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
absl::StatusOr<std::unique_ptr<cuda::GpuSet>> Open(
    const std::vector<Fault>& faults, const GpuSettings& settings,
    const cuda::GpuCutterOptions& options = SmallOptions()) {
  const GpuSource source{
      static_cast<std::uint32_t>(faults.size()),
      [&](std::uint32_t number) -> absl::StatusOr<std::unique_ptr<cuda::Device>> {
        return std::make_unique<cuda::FaultyDevice>(
            std::make_unique<cuda::EmulatedDevice>(
                cuda::EmulatedDeviceOptions{.kernels = cuda::EmulatedKernelList()}),
            faults[number]);
      }};
  return OpenGpusOf(source, settings, options, [](std::uint32_t, const absl::Status&) {});
}

std::vector<std::uint32_t> NumbersOf(const cuda::GpuSet& gpus) {
  std::vector<std::uint32_t> numbers;
  for (const cuda::GpuState& state : gpus.states()) numbers.push_back(state.number);
  return numbers;
}

// What is taken of the memory of a device, as Device::AllocateArrays has it.
class TakenBytes final : public cuda::FaultyDevice {
 public:
  explicit TakenBytes(cuda::EmulatedDeviceOptions options)
      : FaultyDevice(std::make_unique<cuda::EmulatedDevice>(std::move(options)), {}) {}

  absl::StatusOr<std::vector<std::uint8_t*>> AllocateArrays(
      std::span<const std::size_t> sizes_bytes) override {
    for (const std::size_t bytes : sizes_bytes) size_bytes_ += (bytes + 255) / 256 * 256;
    return FaultyDevice::AllocateArrays(sizes_bytes);
  }
  std::size_t size_bytes() const { return size_bytes_; }

 private:
  std::size_t size_bytes_ = 0;
};

const Fault kWell{};
const Fault kSick{Fault::Kind::kWrongBits, 0};

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

TEST(OpenGpusTest, BatchesFitTheMemoryThatIsSet) {
  GpuSettings settings;
  const auto usual = GpuOptionsOf(settings);
  ASSERT_TRUE(usual.ok()) << usual.status();
  EXPECT_EQ(usual->slot.batch_bytes, cuda::GpuCutterOptions().slot.batch_bytes);
  EXPECT_EQ(usual->slot_count, 7u);
  EXPECT_FALSE(usual->min_piece_bytes.has_value());
  // With more there are not more than are of use.
  for (const std::uint64_t memory_bytes : {std::uint64_t{1} << 30, ~std::uint64_t{0}}) {
    settings.memory_bytes = memory_bytes;
    EXPECT_EQ(GpuOptionsOf(settings)->slot_count, 8u);
  }
  settings.memory_bytes = 10 << 20;
  settings.min_piece_bytes = 7;
  const auto small = GpuOptionsOf(settings);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(small->slot_count, 1u);
  EXPECT_EQ(small->slot.batch_bytes, std::size_t{4} << 20);
  EXPECT_EQ(small->min_piece_bytes, 7u);
}

// On a GPU that has so much memory and no more, as libkerf_cuda.so lays it out.
TEST(OpenGpusTest, ThatMemoryIsEnoughForAllBatches) {
  for (const std::uint64_t memory_bytes : {1 << 20, 3 << 20, 80 << 20}) {
    GpuSettings settings;
    settings.memory_bytes = memory_bytes;
    const auto options = GpuOptionsOf(settings);
    ASSERT_TRUE(options.ok()) << options.status();
    TakenBytes taken({.kernels = {}, .memory_bytes = memory_bytes});
    std::vector<std::unique_ptr<cuda::BatchSlot>> slots;
    while (slots.size() < options->slot_count) {
      auto slot = cuda::BatchSlot::Make(taken, options->slot);
      ASSERT_TRUE(slot.ok()) << slot.status();
      slots.push_back(*std::move(slot));
    }
    EXPECT_LE(taken.size_bytes(), memory_bytes);
    EXPECT_EQ(taken.size_bytes(), slots.size() * cuda::SlotDeviceBytes(options->slot));
  }
}

// The largest chunk of a named profile fits the smallest batch.
TEST(OpenGpusTest, MemoryForLessThanABatchIsAnError) {
  GpuSettings settings;
  const std::size_t least_bytes =
      cuda::SlotDeviceBytes({.batch_bytes = 256 << 10, .piece_count = 64});
  settings.memory_bytes = least_bytes;
  const auto least = GpuOptionsOf(settings);
  ASSERT_TRUE(least.ok()) << least.status();
  EXPECT_EQ(least->slot.batch_bytes, std::size_t{256} << 10);
  for (const std::uint64_t memory_bytes : {settings.memory_bytes - 1, std::uint64_t{0}}) {
    settings.memory_bytes = memory_bytes;
    const auto none = GpuOptionsOf(settings);
    EXPECT_TRUE(absl::IsUnavailable(none.status())) << none.status();
    EXPECT_THAT(none.status().ToString(),
                HasSubstr(Cat("set --gpu-memory to ", least_bytes, " or more")));
  }
}

// Where it cuts nothing kerfd says why.
TEST(OpenGpusTest, SaysFromWhichSizeOnEachCuts) {
  const auto logged_with = [](std::optional<std::size_t> min_piece_bytes) {
    cuda::GpuCutterOptions options = SmallOptions();
    options.min_piece_bytes = min_piece_bytes;
    testing::internal::CaptureStderr();
    const auto gpus = Open({kWell}, GpuSettings(), options);
    const std::string logged = testing::internal::GetCapturedStderr();
    EXPECT_TRUE(gpus.ok()) << gpus.status();
    return logged;
  };
  EXPECT_THAT(logged_with(32 << 10), HasSubstr("cuts pieces of 32.0 KiB and more"));
  EXPECT_THAT(logged_with(40 << 10),
              HasSubstr("cuts nothing: streams send pieces of up to 32.0 KiB, and --gpu-min-piece "
                        "is 40.0 KiB; set it to auto, or to 32.0 KiB or less"));
  // The emulator always is.
  EXPECT_THAT(logged_with(std::nullopt),
              HasSubstr("is slower than the CPU at pieces of up to 32.0 KiB, which is what streams "
                        "send: it cuts nothing"));
}

// Batches may be larger than what streams send.
TEST(OpenGpusTest, SaysWhatStreamsSend) {
  constexpr std::size_t kBatchBytes = 16 << 20;
  EXPECT_EQ(WhatAGpuCuts(2 << 20, kBatchBytes, false), "cuts pieces of 2.0 MiB and more");
  EXPECT_EQ(WhatAGpuCuts(3 << 20, kBatchBytes, false),
            "cuts nothing but for profiles with chunks of up to 1.5 MiB and more: streams send "
            "pieces of up to 2.0 MiB, and --gpu-min-piece is 3.0 MiB; set it to auto, or to 2.0 "
            "MiB or less");
  EXPECT_EQ(WhatAGpuCuts(3 << 20, kBatchBytes, true),
            "is slower than the CPU at pieces of up to 2.0 MiB, which is what streams send: it "
            "cuts nothing but for profiles with chunks of up to 1.5 MiB and more");
  // No chunk is larger than 4 MiB.
  EXPECT_THAT(WhatAGpuCuts((8 << 20) + 1, kBatchBytes, false),
              HasSubstr("cuts nothing: streams send pieces of up to 2.0 MiB, and"));
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
