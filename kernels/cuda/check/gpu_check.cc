// gpu_check: holds the GPU of a machine that has neither the repository nor its tools against the
// CPU. The plug-in is linked in.
#include <iostream>

#include "base/status.h"
#include "kernels/cuda/check/check_program.h"
#include "kernels/cuda/plugin/abi.h"
#include "kernels/cuda/plugin/plugin.h"

namespace {

absl::StatusOr<std::unique_ptr<kerf::cuda::Device>> Open(std::uint32_t number) {
  KERF_ASSIGN_OR_RETURN(const auto plugin,
                        kerf::cuda::Plugin::Of(*kerf_cuda_plugin(), "gpu_check"));
  // It says better why there is none.
  KERF_RETURN_IF_ERROR(plugin.CountDevices().status());
  return plugin.Open(number);
}

}  // namespace

int main(int argc, char** argv) {
  return static_cast<int>(kerf::cuda::RunCheckProgram(argc, argv, Open, std::cout));
}
