// What a kerfd of another build would have left behind: its kernels are other ones.
#include "kernels/cuda/plugin/abi.h"

namespace {

kerf::cuda::PluginApi MakeApi() {
  kerf::cuda::PluginApi api = {};
  api.abi_version = kerf::cuda::kPluginAbiVersion;
  api.version = "0.0.0";
  api.version_bytes = 5;
  return api;
}

}  // namespace

extern "C" const kerf::cuda::PluginApi* kerf_cuda_plugin() {
  static const kerf::cuda::PluginApi api = MakeApi();
  return &api;
}
