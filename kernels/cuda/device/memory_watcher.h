// Who is told what becomes of the memory of an emulated device.
#pragma once

#include <cstdint>
#include <span>

namespace kerf::cuda {

// Called as the device does it: copies when they run. Not thread-safe.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;

  // By one call of AllocateArrays.
  virtual void Taken(std::span<const std::span<std::uint8_t>> arrays) = 0;
  // Behind a copy from the host, and before one to it.
  virtual void CopiedIn(std::span<const std::uint8_t> bytes) = 0;
  virtual void CopiedOut(std::span<const std::uint8_t> bytes) = 0;
};

}  // namespace kerf::cuda
