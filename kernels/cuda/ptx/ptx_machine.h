// A device that runs the PTX of the plug-in's kernels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>

#include "base/random.h"
#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/ptx/findings.h"
#include "kernels/cuda/ptx/kernels.h"
#include "kernels/cuda/ptx/machine.h"
#include "kernels/cuda/ptx/memory.h"
#include "kernels/cuda/ptx/warp_counter.h"

namespace kerf::cuda::ptx {

// What one device has. Not thread-safe.
struct PtxMachine {
  // With `counter`, which outlives it, kernels that have counts are counted, and a launch has the
  // blocks that a large GPU would have work for; else it has a few, as chance has it.
  explicit PtxMachine(std::uint64_t seed, WarpCounter* counter = nullptr)
      : random(seed), is_counted(counter != nullptr) {
    machine.set_counter(counter);
  }
  PtxMachine(const PtxMachine&) = delete;
  PtxMachine& operator=(const PtxMachine&) = delete;

  Findings findings;
  Memory memory{findings};
  Machine machine{memory, findings};
  // Of the number of a launch's blocks, and of the order in which they and their threads run.
  Random random;
  const bool is_counted;
  // That were launched so far.
  std::set<const Kernel*> launched;
};

// Options of a device whose kernels, those of KernelList, run on `machine`, which serves no other
// one: with gaps between arrays, and lost as soon as there is a finding. Commands run all at once,
// when somebody asks for them.
EmulatedDeviceOptions PtxDeviceOptions(const std::shared_ptr<PtxMachine>& machine);

}  // namespace kerf::cuda::ptx
