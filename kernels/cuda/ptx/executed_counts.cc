// Runs a batch of each kind of plan and of data by the PTX that ships, and says what warps have
// executed of each kernel: for tools/sass, which holds it to kernels/cuda/executed_limits.txt. A
// line for each kernel and kind of data, columns parted by tabs: the data, the kernel as the linker
// calls it, the bytes of the batches in which it ran, instructions that warps have issued, lanes in
// them, bytes loaded from the device's memory, and bytes stored there.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/check.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/ptx/ptx_machine.h"
#include "kernels/cuda/ptx/warp_counter.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/testing/inputs.h"

namespace kerf::cuda::ptx {
namespace {

// Of data and of the order in which threads run: the figures are the same each time.
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kBatchBytes = 1 << 20;
constexpr std::string_view kData[] = {"random", "text", "sparse"};

struct CountedPlan {
  std::string_view profile;
  DigestAlgorithm digest;
};
// So that each kernel runs.
constexpr CountedPlan kPlans[] = {
    {"gear-8k", DigestAlgorithm::kBlake3},        {"fastcdc-8k", DigestAlgorithm::kSha256},
    {"fastcdc2020-8k", DigestAlgorithm::kSha256}, {"crc-8k", DigestAlgorithm::kSha256},
    {"rabin-8k", DigestAlgorithm::kBlake3},       {"maxp-local-8k", DigestAlgorithm::kBlake3},
    {"mincdc-8k", DigestAlgorithm::kBlake3},      {"maxcdc-8k", DigestAlgorithm::kBlake3}};

struct KernelCounts {
  std::uint64_t bytes = 0;
  WarpCounts warps;
};

absl::Status RunBatch(Device& device, const CountedPlan& counted, std::string_view data) {
  KERF_ASSIGN_OR_RETURN(const Profile profile, ParseProfile(counted.profile));
  const std::shared_ptr<const BatchPlan> plan = MakeBatchPlan(profile, counted.digest);
  KERF_CHECK(plan != nullptr);
  KERF_ASSIGN_OR_RETURN(const auto slot,
                        BatchSlot::Make(device, {.batch_bytes = kBatchBytes, .piece_count = 1}));
  const auto bytes = MakeInput(data, kSeed, kBatchBytes);
  std::copy(bytes.begin(), bytes.end(), slot->bytes().begin());
  const SlotPiece whole{0, kBatchBytes, true};
  KERF_RETURN_IF_ERROR(slot->Start(plan, {&whole, 1}));
  for (bool is_done = false; !is_done;) {
    KERF_ASSIGN_OR_RETURN(is_done, slot->IsDone());
  }
  return absl::OkStatus();
}

absl::Status CountData(std::string_view data) {
  std::map<std::string, KernelCounts> all;
  for (const CountedPlan& plan : kPlans) {
    WarpCounter counter;
    EmulatedDevice device(PtxDeviceOptions(std::make_shared<PtxMachine>(kSeed, &counter)));
    KERF_RETURN_IF_ERROR(RunBatch(device, plan, data));
    for (const auto& [kernel, counts] : counter.counts()) {
      KernelCounts& sum = all[kernel->name];
      sum.bytes += kBatchBytes;
      sum.warps.issued += counts.issued;
      sum.warps.lanes += counts.lanes;
      sum.warps.loaded_bytes += counts.loaded_bytes;
      sum.warps.stored_bytes += counts.stored_bytes;
    }
  }
  for (const auto& [name, sum] : all) {
    const std::string line =
        Cat(data, "\t", name, "\t", sum.bytes, "\t", sum.warps.issued, "\t", sum.warps.lanes, "\t",
            sum.warps.loaded_bytes, "\t", sum.warps.stored_bytes, "\n");
    std::fputs(line.c_str(), stdout);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace kerf::cuda::ptx

int main() {
  for (const std::string_view data : kerf::cuda::ptx::kData) {
    const absl::Status status = kerf::cuda::ptx::CountData(data);
    if (status.ok()) continue;
    std::fprintf(stderr, "executed_counts: %s\n", std::string(kerf::MessageOf(status)).c_str());
    return 1;
  }
  return 0;
}
