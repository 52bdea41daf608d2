// What the PTX that ships leaves in the device's memory between its kernels, too, is what the
// emulator leaves there, which runs the same sources as the host's compiler has them: marks that
// end no chunk, edges that no path comes by.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/device/memory_watcher.h"
#include "kernels/cuda/kernel/blake3_batch.h"
#include "kernels/cuda/kernel/selection.h"
#include "kernels/cuda/kernel/sha256_batch.h"
#include "kernels/cuda/pipeline/batch_plan.h"
#include "kernels/cuda/pipeline/batch_slot.h"
#include "kernels/cuda/plugin/emulated_kernels.h"
#include "kernels/cuda/ptx/mutant_workloads.h"
#include "kernels/cuda/ptx/ptx_machine.h"
#include "kernels/profile.h"

namespace kerf::cuda::ptx {
namespace {

// The arrays of a device, in the order in which they were taken.
class TakenArrays final : public MemoryWatcher {
 public:
  void Taken(std::span<const std::span<std::uint8_t>> arrays) override {
    all.insert(all.end(), arrays.begin(), arrays.end());
  }
  void CopiedIn(std::span<const std::uint8_t>) override {}
  void CopiedOut(std::span<const std::uint8_t>) override {}

  std::vector<std::span<std::uint8_t>> all;
};

// In the place of who hands out arrays: their numbers, as addresses.
class Numbers {
 public:
  explicit Numbers(std::uintptr_t first) : next_(first) {}
  template <class T>
  T* operator()(std::size_t) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    return reinterpret_cast<T*>(next_++);
  }

 private:
  std::uintptr_t next_;
};

// Those whose contents are in an order that nobody promises, or depend on how many blocks there
// are.
std::set<std::uint32_t> ArraysWithoutOrder(const SlotLimits& limits) {
  // In front of them BatchSlot takes what goes in, the marks, and two arrays of maxima.
  Numbers numbers(4);
  const SelectionLimits selection_limits{limits.batch_bytes, limits.piece_count,
                                         kMinDeviceChunkBytes, kMinCandidateBytesLog2};
  const std::size_t chunk_count = MaxChunkCount(selection_limits);
  const SelectionArgs selection = TakeSelectionMemory(selection_limits, numbers);
  TakeBlake3Workspace(Blake3WorkspaceSize(limits.batch_bytes, chunk_count), numbers);
  const Sha256Workspace sha256 = TakeSha256Workspace(Sha256WorkspaceSize(chunk_count), numbers);
  std::set<std::uint32_t> found;
  for (const std::uint32_t* array : {selection.long_nodes, sha256.order, sha256.next_group}) {
    found.insert(static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(array)));
  }
  return found;
}

absl::Status RunOn(Device& device, const Workload& workload) {
  auto slot = BatchSlot::Make(device, workload.limits);
  if (!slot.ok()) return slot.status();
  std::copy(workload.bytes.begin(), workload.bytes.end(), (*slot)->bytes().begin());
  absl::Status status = (*slot)->Start(workload.plan, workload.pieces);
  for (bool is_done = false; status.ok() && !is_done;) {
    const auto answer = (*slot)->IsDone();
    status = answer.status();
    is_done = answer.ok() && *answer;
  }
  return status;
}

// Where the two differ first; empty: nowhere. `compared` counts what was looked at.
std::string DifferenceFromEmulator(const Workload& workload, std::uint64_t seed,
                                   std::size_t& compared) {
  TakenArrays emulated;
  EmulatedDevice emulator({.kernels = EmulatedKernelList(), .watcher = &emulated});
  const auto machine = std::make_shared<PtxMachine>(seed);
  EmulatedDevice device(PtxDeviceOptions(machine));
  if (const absl::Status status = RunOn(emulator, workload); !status.ok()) return status.ToString();
  if (const absl::Status status = RunOn(device, workload); !status.ok()) return status.ToString();
  const std::set<std::uint32_t> without_order = ArraysWithoutOrder(workload.limits);
  std::string difference;
  machine->memory.ForEachWritten(
      [&](std::uint32_t array, std::uint64_t offset, std::span<const std::uint8_t> bytes) {
        if (without_order.contains(array) || !difference.empty()) return;
        ++compared;
        const auto theirs = emulated.all.at(array).subspan(offset, bytes.size());
        if (std::equal(bytes.begin(), bytes.end(), theirs.begin())) return;
        difference = Cat("array ", array, ", byte ", offset, " of ", emulated.all[array].size());
      });
  return difference;
}

TEST(PtxMemoryTest, IsAsTheEmulatorLeavesIt) {
  for (const Workload& workload : MakeDenseWorkloads(TestSeed())) {
    std::size_t compared = 0;
    const std::string difference = DifferenceFromEmulator(workload, TestSeed(), compared);
    EXPECT_EQ(difference, "") << FormatProfile(workload.plan->profile);
    // Of marks alone there is a word for each 32 bytes of pieces.
    EXPECT_GT(compared, workload.bytes.size() / 64) << FormatProfile(workload.plan->profile);
  }
}

}  // namespace
}  // namespace kerf::cuda::ptx
