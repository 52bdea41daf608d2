// What libkerf_cuda.so offers to the program that loads it: plain C, so that each side may be
// linked statically with whatever it needs. One function a function of Device
// (kernels/cuda/device/device.h), whose contract it has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kerf::cuda {

// Another one: another layout of what is below.
inline constexpr std::uint32_t kPluginAbiVersion = 5;
// The one symbol that the plug-in exports: a PluginEntry.
inline constexpr char kPluginEntryName[] = "kerf_cuda_plugin";

enum class PluginResult : std::int32_t {
  kOk = 0,
  kNoMemory = 1,
  kFailed = 2,
  // Of `between` alone: Unavailable.
  kNoTime = 3,
  // FailedPrecondition.
  kRefused = 4,
};

// Text of the last failure, ended by 0.
struct PluginError {
  char text[256];
};

// Opaque: a device that was opened.
struct PluginDevice;

struct PluginDeviceInfo {
  char name[256];
  std::uint64_t memory_bytes;
};

// All functions: not thread-safe for one device, from any thread.
struct PluginApi {
  std::uint32_t abi_version;
  std::uint32_t kernel_count;
  // Of each kernel's Args, by number.
  const std::uint32_t* args_bytes;
  // Of the kernels' names (KernelTypes::NamesHash).
  std::uint64_t names_hash;
  // Of kerf, a text of so many bytes.
  const char* version;
  std::size_t version_bytes;

  PluginResult (*count_devices)(std::uint32_t* count, PluginError* error);
  // Closed with `close`, which may be told of a device that is lost.
  PluginResult (*open)(std::uint32_t number, PluginDevice** device, PluginDeviceInfo* info,
                       PluginError* error);
  void (*close)(PluginDevice* device);
  PluginResult (*load_kernels)(PluginDevice* device, PluginError* error);

  // `arrays` has room for `count`.
  PluginResult (*allocate_arrays)(PluginDevice* device, const std::size_t* sizes_bytes,
                                  std::size_t count, std::uint8_t** arrays, PluginError* error);
  PluginResult (*allocate_pinned)(PluginDevice* device, std::size_t size_bytes,
                                  std::uint8_t** bytes, PluginError* error);
  PluginResult (*make_queue)(PluginDevice* device, std::uint32_t* queue, PluginError* error);
  PluginResult (*copy_in)(PluginDevice* device, std::uint32_t queue, std::uint8_t* to,
                          const std::uint8_t* pinned, std::size_t size_bytes, PluginError* error);
  PluginResult (*copy_out)(PluginDevice* device, std::uint32_t queue, std::uint8_t* pinned,
                           const std::uint8_t* from, std::size_t size_bytes, PluginError* error);
  PluginResult (*launch)(PluginDevice* device, std::uint32_t queue, std::uint32_t kernel,
                         const std::uint8_t* args, std::size_t args_bytes, PluginError* error);
  PluginResult (*make_moment)(PluginDevice* device, std::uint32_t* moment, PluginError* error);
  PluginResult (*note)(PluginDevice* device, std::uint32_t queue, std::uint32_t moment,
                       PluginError* error);
  PluginResult (*between)(PluginDevice* device, std::uint32_t from, std::uint32_t to,
                          std::uint64_t* nanoseconds, PluginError* error);
  PluginResult (*begin_graph)(PluginDevice* device, std::uint32_t queue, PluginError* error);
  PluginResult (*end_graph)(PluginDevice* device, std::uint32_t queue, std::uint32_t* graph,
                            PluginError* error);
  PluginResult (*cancel_graph)(PluginDevice* device, std::uint32_t queue, PluginError* error);
  PluginResult (*run_graph)(PluginDevice* device, std::uint32_t queue, std::uint32_t graph,
                            PluginError* error);
  PluginResult (*drop_graph)(PluginDevice* device, std::uint32_t graph, PluginError* error);
  PluginResult (*is_done)(PluginDevice* device, std::uint32_t queue, std::uint32_t* is_done,
                          PluginError* error);
};

using PluginEntry = const PluginApi* (*)();

}  // namespace kerf::cuda

// In a program that the plug-in is linked into (:cuda_plugin); all others load libkerf_cuda.so.
extern "C" const kerf::cuda::PluginApi* kerf_cuda_plugin();
