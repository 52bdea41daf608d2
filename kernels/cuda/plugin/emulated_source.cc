#include "kernels/cuda/plugin/emulated_source.h"

#include <memory>
#include <utility>

#include "kernels/cuda/device/emulated_device.h"
#include "kernels/cuda/plugin/emulated_kernels.h"

namespace kerf::cuda {

OpenDevice EmulatedSource(std::uint64_t seed, Fault fault, std::uint64_t faulty) {
  return [seed, fault, faulty, number = std::uint64_t{0}]() mutable {
    auto device = std::make_unique<EmulatedDevice>(
        EmulatedDeviceOptions{.kernels = EmulatedKernelList(), .seed = seed + number});
    const Fault its = number == faulty || faulty == kEveryDevice ? fault : Fault{};
    ++number;
    return std::make_unique<FaultyDevice>(std::move(device), its);
  };
}

}  // namespace kerf::cuda
