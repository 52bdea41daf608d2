// The plug-in, over the CUDA runtime, which is linked statically. Needs a driver only when a
// function is called.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/version.h"
#include "kernels/cuda/launch/launch.h"
#include "kernels/cuda/launch/portable.h"
#include "kernels/cuda/plugin/abi.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {

struct PluginDevice {
  int number = 0;
  std::vector<void*> memory;
  std::vector<void*> pinned_memory;
  std::vector<cudaStream_t> queues;
  std::vector<cudaEvent_t> moments;
  // Null where one was dropped.
  std::vector<cudaGraphExec_t> graphs;
  // By number, of those that the device cannot run: why. Empty before load_kernels.
  std::vector<std::string> refusals;
};

namespace {

// What the device has not, or the driver cannot do, for one kernel. Other kernels run all the same:
// errors that stick to the device are others, and come back with the next call.
bool IsRefusal(cudaError_t code) {
  switch (code) {
    case cudaErrorInvalidConfiguration:
    case cudaErrorInvalidDeviceFunction:
    case cudaErrorInvalidKernelImage:
    case cudaErrorInvalidPtx:
    case cudaErrorJitCompilationDisabled:
    case cudaErrorJitCompilerNotFound:
    case cudaErrorLaunchOutOfResources:
    case cudaErrorNoKernelImageForDevice:
    case cudaErrorUnsupportedPtxVersion:
      return true;
    default:
      return false;
  }
}

PluginResult ResultOf(const char* what, cudaError_t code, PluginError* error) {
  if (code == cudaSuccess) return PluginResult::kOk;
  const char* const advice =
      code == cudaErrorInsufficientDriver ? "; no NVIDIA driver is installed, or one too old" : "";
  std::snprintf(error->text, sizeof error->text, "%s: %s (%s, error %d of CUDA)%s", what,
                cudaGetErrorString(code), cudaGetErrorName(code), static_cast<int>(code), advice);
  const bool is_refusal = IsRefusal(code);
  if (code != cudaErrorMemoryAllocation && !is_refusal) return PluginResult::kFailed;
  // It is told of once, and does not stick to the device.
  cudaGetLastError();
  return is_refusal ? PluginResult::kRefused : PluginResult::kNoMemory;
}

// Which device a thread talks to is the thread's own.
cudaError_t Use(const PluginDevice& device) { return cudaSetDevice(device.number); }

PluginResult CountDevices(std::uint32_t* count, PluginError* error) {
  int found = 0;
  const cudaError_t code = cudaGetDeviceCount(&found);
  *count = static_cast<std::uint32_t>(found);
  return ResultOf("looking for GPUs", code, error);
}

PluginResult Open(std::uint32_t number, PluginDevice** device, PluginDeviceInfo* info,
                  PluginError* error) {
  auto opened = std::make_unique<PluginDevice>();
  opened->number = static_cast<int>(number);
  cudaError_t code = Use(*opened);
  cudaDeviceProp properties = {};
  if (code == cudaSuccess) code = cudaGetDeviceProperties(&properties, opened->number);
  if (code != cudaSuccess) return ResultOf("opening the GPU", code, error);
  static_assert(sizeof info->name >= sizeof properties.name);
  std::memcpy(info->name, properties.name, sizeof properties.name);
  info->memory_bytes = properties.totalGlobalMem;
  *device = opened.release();
  return PluginResult::kOk;
}

// Errors are of no use any more.
void Close(PluginDevice* device) {
  const std::unique_ptr<PluginDevice> closed(device);
  if (Use(*closed) != cudaSuccess) return;
  for (cudaGraphExec_t graph : closed->graphs) {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }
  for (cudaEvent_t moment : closed->moments) cudaEventDestroy(moment);
  for (cudaStream_t queue : closed->queues) cudaStreamDestroy(queue);
  for (void* bytes : closed->pinned_memory) cudaFreeHost(bytes);
  for (void* bytes : closed->memory) cudaFree(bytes);
}

// One behind the other in one piece, of which CUDA gives all or none.
PluginResult AllocateArrays(PluginDevice* device, const std::size_t* sizes_bytes, std::size_t count,
                            std::uint8_t** arrays, PluginError* error) {
  constexpr std::size_t kAlignmentBytes = 256;
  std::vector<std::size_t> offsets;
  std::size_t whole_bytes = 0;
  for (std::size_t index = 0; index < count; ++index) {
    offsets.push_back(whole_bytes);
    whole_bytes += (sizes_bytes[index] + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  }
  void* place = nullptr;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaMalloc(&place, whole_bytes);
  if (code != cudaSuccess) return ResultOf("taking memory of the GPU", code, error);
  device->memory.push_back(place);
  for (std::size_t index = 0; index < count; ++index) {
    arrays[index] = static_cast<std::uint8_t*>(place) + offsets[index];
  }
  return PluginResult::kOk;
}

PluginResult AllocatePinned(PluginDevice* device, std::size_t size_bytes, std::uint8_t** bytes,
                            PluginError* error) {
  void* place = nullptr;
  cudaError_t code = Use(*device);
  // Not write-combined: when the device is lost, the CPU reads it.
  if (code == cudaSuccess) code = cudaHostAlloc(&place, size_bytes, cudaHostAllocDefault);
  if (code != cudaSuccess) return ResultOf("taking pinned memory", code, error);
  device->pinned_memory.push_back(place);
  *bytes = static_cast<std::uint8_t*>(place);
  return PluginResult::kOk;
}

PluginResult MakeQueue(PluginDevice* device, std::uint32_t* queue, PluginError* error) {
  cudaStream_t stream = nullptr;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (code != cudaSuccess) return ResultOf("making a queue", code, error);
  *queue = static_cast<std::uint32_t>(device->queues.size());
  device->queues.push_back(stream);
  return PluginResult::kOk;
}

PluginResult CopyIn(PluginDevice* device, std::uint32_t queue, std::uint8_t* to,
                    const std::uint8_t* pinned, std::size_t size_bytes, PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) {
    code = cudaMemcpyAsync(to, pinned, size_bytes, cudaMemcpyHostToDevice, device->queues[queue]);
  }
  return ResultOf("copying to the GPU", code, error);
}

PluginResult CopyOut(PluginDevice* device, std::uint32_t queue, std::uint8_t* pinned,
                     const std::uint8_t* from, std::size_t size_bytes, PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) {
    code = cudaMemcpyAsync(pinned, from, size_bytes, cudaMemcpyDeviceToHost, device->queues[queue]);
  }
  return ResultOf("copying from the GPU", code, error);
}

// Why the device cannot run a kernel; empty: it can, or an error says otherwise.
template <class Kernel>
cudaError_t LoadKernel(int device, std::string* refusal) {
  const cudaError_t code = Launch<Kernel>({}, nullptr, kOnlyLoad);
  if (!IsRefusal(code)) return code;
  cudaGetLastError();
  int most_shared_bytes = 0;
  cudaDeviceGetAttribute(&most_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  constexpr std::size_t kSharedBytes = GivenSharedBytes<Kernel>();
  if (kSharedBytes > static_cast<std::size_t>(most_shared_bytes)) {
    *refusal = "a block needs " + std::to_string(kSharedBytes) +
               " bytes of shared memory, and this GPU has " + std::to_string(most_shared_bytes);
  } else {
    *refusal = cudaGetErrorString(code);
  }
  return cudaSuccess;
}

template <class... Kernels>
cudaError_t LoadAll(KernelTypes<Kernels...>, int device, std::vector<std::string>& refusals) {
  refusals.assign(sizeof...(Kernels), "");
  cudaError_t code = cudaSuccess;
  std::size_t number = 0;
  // The first that is more than a refusal ends it.
  static_cast<void>(
      ((code = LoadKernel<Kernels>(device, &refusals[number++]), code == cudaSuccess) && ...));
  return code;
}

PluginResult LoadKernels(PluginDevice* device, PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = LoadAll(KernelList(), device->number, device->refusals);
  return ResultOf("loading the kernels", code, error);
}

using LaunchFunction = cudaError_t (*)(const std::uint8_t* args, cudaStream_t stream);

template <class... Kernels>
cudaError_t LaunchNumber(KernelTypes<Kernels...>, std::uint32_t kernel, const std::uint8_t* args,
                         cudaStream_t stream) {
  static constexpr LaunchFunction kLaunches[] = {+[](const std::uint8_t* bytes, cudaStream_t into) {
    typename Kernels::Args copy;
    std::memcpy(&copy, bytes, sizeof copy);
    return Launch<Kernels>(copy, into);
  }...};
  return kLaunches[kernel](args, stream);
}

PluginResult LaunchKernel(PluginDevice* device, std::uint32_t queue, std::uint32_t kernel,
                          const std::uint8_t* args, std::size_t args_bytes, PluginError* error) {
  if (kernel < device->refusals.size() && !device->refusals[kernel].empty()) {
    std::snprintf(error->text, sizeof error->text, "%s", device->refusals[kernel].c_str());
    return PluginResult::kRefused;
  }
  cudaError_t code = cudaErrorInvalidValue;
  if (kernel < KernelList::kCount && args_bytes == KernelList::kArgsBytes[kernel]) {
    code = Use(*device);
    if (code == cudaSuccess) code = LaunchNumber(KernelList(), kernel, args, device->queues[queue]);
  }
  return ResultOf("launching a kernel", code, error);
}

PluginResult MakeMoment(PluginDevice* device, std::uint32_t* moment, PluginError* error) {
  cudaEvent_t event = nullptr;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaEventCreate(&event);
  if (code != cudaSuccess) return ResultOf("making an event", code, error);
  *moment = static_cast<std::uint32_t>(device->moments.size());
  device->moments.push_back(event);
  return PluginResult::kOk;
}

PluginResult Note(PluginDevice* device, std::uint32_t queue, std::uint32_t moment,
                  PluginError* error) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaStreamIsCapturing(device->queues[queue], &capture);
  if (code == cudaSuccess) {
    // An event without the flag would only order what is recorded, and have no time; the flag is
    // not allowed elsewhere.
    const bool is_recorded = capture == cudaStreamCaptureStatusActive;
    code = cudaEventRecordWithFlags(device->moments[moment], device->queues[queue],
                                    is_recorded ? cudaEventRecordExternal : cudaEventRecordDefault);
  }
  return ResultOf("recording an event", code, error);
}

PluginResult Between(PluginDevice* device, std::uint32_t from, std::uint32_t to,
                     std::uint64_t* nanoseconds, PluginError* error) {
  float milliseconds = 0;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) {
    code = cudaEventElapsedTime(&milliseconds, device->moments[from], device->moments[to]);
  }
  *nanoseconds = static_cast<std::uint64_t>(std::max(milliseconds, 0.0f) * 1e6);
  const PluginResult result = ResultOf("asking for a time", code, error);
  // These are about the events alone: batches need no clock.
  if (code != cudaErrorInvalidResourceHandle && code != cudaErrorInvalidValue &&
      code != cudaErrorNotReady) {
    return result;
  }
  cudaGetLastError();
  return PluginResult::kNoTime;
}

PluginResult BeginGraph(PluginDevice* device, std::uint32_t queue, PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) {
    code = cudaStreamBeginCapture(device->queues[queue], cudaStreamCaptureModeThreadLocal);
  }
  return ResultOf("recording launches", code, error);
}

PluginResult EndGraph(PluginDevice* device, std::uint32_t queue, std::uint32_t* graph,
                      PluginError* error) {
  cudaGraph_t recorded = nullptr;
  cudaGraphExec_t made = nullptr;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaStreamEndCapture(device->queues[queue], &recorded);
  if (code == cudaSuccess) code = cudaGraphInstantiate(&made, recorded, 0);
  if (recorded != nullptr) cudaGraphDestroy(recorded);
  if (code != cudaSuccess) return ResultOf("making a graph of launches", code, error);
  auto place = std::find(device->graphs.begin(), device->graphs.end(), nullptr);
  if (place == device->graphs.end()) place = device->graphs.insert(place, nullptr);
  *place = made;
  *graph = static_cast<std::uint32_t>(place - device->graphs.begin());
  return PluginResult::kOk;
}

// What failed within a capture may have made it invalid, which its end says once more.
PluginResult CancelGraph(PluginDevice* device, std::uint32_t queue, PluginError* error) {
  const cudaStream_t stream = device->queues[queue];
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaStreamIsCapturing(stream, &capture);
  if (code == cudaSuccess && capture != cudaStreamCaptureStatusNone) {
    cudaGraph_t recorded = nullptr;
    code = cudaStreamEndCapture(stream, &recorded);
    if (recorded != nullptr) cudaGraphDestroy(recorded);
    if (code == cudaErrorStreamCaptureInvalidated) {
      cudaGetLastError();
      code = cudaSuccess;
    }
  }
  return ResultOf("forgetting launches", code, error);
}

PluginResult RunGraph(PluginDevice* device, std::uint32_t queue, std::uint32_t graph,
                      PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaGraphLaunch(device->graphs[graph], device->queues[queue]);
  return ResultOf("launching a graph", code, error);
}

PluginResult DropGraph(PluginDevice* device, std::uint32_t graph, PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) {
    code = cudaGraphExecDestroy(std::exchange(device->graphs[graph], nullptr));
  }
  return ResultOf("dropping a graph of launches", code, error);
}

PluginResult IsDone(PluginDevice* device, std::uint32_t queue, std::uint32_t* is_done,
                    PluginError* error) {
  cudaError_t code = Use(*device);
  if (code == cudaSuccess) code = cudaStreamQuery(device->queues[queue]);
  *is_done = code == cudaSuccess ? 1 : 0;
  if (code == cudaErrorNotReady) code = cudaSuccess;
  return ResultOf("running kernels", code, error);
}

PluginApi MakeApi() {
  return {
      kPluginAbiVersion,
      KernelList::kCount,
      KernelList::kArgsBytes.data(),
      KernelList::NamesHash(),
      kVersion.data(),
      kVersion.size(),
      CountDevices,
      Open,
      Close,
      LoadKernels,
      AllocateArrays,
      AllocatePinned,
      MakeQueue,
      CopyIn,
      CopyOut,
      LaunchKernel,
      MakeMoment,
      Note,
      Between,
      BeginGraph,
      EndGraph,
      CancelGraph,
      RunGraph,
      DropGraph,
      IsDone,
  };
}

}  // namespace
}  // namespace kerf::cuda

extern "C" __attribute__((visibility("default"))) const kerf::cuda::PluginApi* kerf_cuda_plugin() {
  static const kerf::cuda::PluginApi api = kerf::cuda::MakeApi();
  return &api;
}
