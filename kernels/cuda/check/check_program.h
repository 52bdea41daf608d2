// The program gpu_check, but for where its devices come from.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>

#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"

namespace kerf::cuda {

// How gpu_check ends; those that `kerf` has too are its (client/cli/exit_code.h).
enum class CheckExit : int {
  kOk = 0,
  kFailed = 1,
  kUsage = 2,
  kNoDevice = 5,
  kDiffers = 6,
};

// Device number `number`. Unavailable: there is none, and why.
using OpenNumber = std::function<absl::StatusOr<std::unique_ptr<Device>>(std::uint32_t number)>;

// Runs the parts that `argv` names, of each of which it prints a line to `out`.
CheckExit RunCheckProgram(int argc, const char* const* argv, const OpenNumber& open,
                          std::ostream& out);

}  // namespace kerf::cuda
