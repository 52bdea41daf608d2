// The plug-in's interface over devices that run the PTX that ships, each in a process of its own
// (ptx_devices.cc), for tests of programs that load it in the place of libkerf_cuda.so. It is
// linked with nothing: what the devices need, Abseil above all, is compiled for programs alone.
#include <dlfcn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/version.h"
#include "kernels/cuda/plugin/abi.h"
#include "kernels/cuda/plugin/kernel_list.h"
#include "kernels/cuda/ptx/plugin/device_calls.h"

namespace kerf::cuda {

struct PluginDevice {
  // Memory of this process in the place of the device's pinned memory.
  struct Pinned {
    std::uint8_t* bytes;
    std::size_t size_bytes;
    std::uint64_t place;
  };
  struct CopyOut {
    std::uint32_t queue;
    std::uint8_t* to;
    std::size_t size_bytes;
  };

  pid_t process = -1;
  int socket = -1;
  std::vector<Pinned> pinned;
  // Not done yet.
  std::vector<CopyOut> copies_out;
};

namespace {

using ptx::Call;
using ptx::Reply;
using ptx::Request;

constexpr std::size_t kPinnedAlignmentBytes = 256;
// No device is.
constexpr std::uint32_t kNoDevice = ~std::uint32_t{0};

PluginResult Fail(PluginError* error, const char* why) {
  std::snprintf(error->text, sizeof error->text, "%s", why);
  return PluginResult::kFailed;
}

// Beside this library.
std::string ProgramOfDevices() {
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void*>(&Fail), &info) == 0) return "";
  const std::string self = info.dli_fname;
  return self.substr(0, self.rfind('/') + 1) + "ptx_devices";
}

// False: there is no process.
bool StartProcess(std::uint32_t number, PluginDevice& device) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return false;
  const std::string program = ProgramOfDevices();
  const std::string argument = std::to_string(number);
  device.process = fork();
  if (device.process == 0) {
    if (dup2(sockets[1], STDIN_FILENO) >= 0) {
      execl(program.c_str(), program.c_str(), argument.c_str(), nullptr);
    }
    _exit(127);
  }
  close(sockets[1]);
  device.socket = sockets[0];
  return device.process > 0;
}

void Close(PluginDevice* device) {
  const std::unique_ptr<PluginDevice> closed(device);
  if (closed->socket >= 0) close(closed->socket);
  if (closed->process > 0) waitpid(closed->process, nullptr, 0);
  for (const PluginDevice::Pinned& pinned : closed->pinned) std::free(pinned.bytes);
}

// One call. `payload` has request.payload_bytes; of the reply's there is `given`.
PluginResult Ask(PluginDevice& device, const Request& request, const void* payload, Reply& reply,
                 std::vector<std::uint8_t>& given, PluginError* error) {
  bool is_there = ptx::SendAll(device.socket, &request, sizeof request) &&
                  ptx::SendAll(device.socket, payload, request.payload_bytes) &&
                  ptx::ReceiveAll(device.socket, &reply, sizeof reply);
  if (is_there) {
    given.resize(reply.payload_bytes);
    is_there = ptx::ReceiveAll(device.socket, given.data(), given.size());
  }
  if (!is_there) return Fail(error, "the process of the device has ended");
  std::snprintf(error->text, sizeof error->text, "%s", reply.text);
  return static_cast<PluginResult>(reply.result);
}

// One that gives a number, or nothing.
PluginResult AskNumber(PluginDevice* device, const Request& request, const void* payload,
                       std::uint64_t* number, PluginError* error) {
  Reply reply;
  std::vector<std::uint8_t> given;
  const PluginResult result = Ask(*device, request, payload, reply, given, error);
  if (result == PluginResult::kOk && number != nullptr) *number = reply.number;
  return result;
}

PluginResult AskId(PluginDevice* device, const Request& request, std::uint32_t* id,
                   PluginError* error) {
  std::uint64_t number = 0;
  const PluginResult result = AskNumber(device, request, nullptr, &number, error);
  *id = static_cast<std::uint32_t>(number);
  return result;
}

PluginResult Start(std::uint32_t number, std::unique_ptr<PluginDevice>& device, Reply& reply,
                   std::vector<std::uint8_t>& given, PluginError* error) {
  device = std::make_unique<PluginDevice>();
  if (!StartProcess(number, *device)) return Fail(error, "no process can be started");
  return Ask(*device, {.call = Call::kOpen}, nullptr, reply, given, error);
}

PluginResult CountDevices(std::uint32_t* count, PluginError* error) {
  std::unique_ptr<PluginDevice> none;
  Reply reply;
  std::vector<std::uint8_t> given;
  const PluginResult result = Start(kNoDevice, none, reply, given, error);
  *count = static_cast<std::uint32_t>(reply.number);
  Close(none.release());
  return result;
}

PluginResult Open(std::uint32_t number, PluginDevice** device, PluginDeviceInfo* info,
                  PluginError* error) {
  std::unique_ptr<PluginDevice> opened;
  Reply reply;
  std::vector<std::uint8_t> given;
  PluginResult result = Start(number, opened, reply, given, error);
  if (result == PluginResult::kOk && given.size() != sizeof *info) {
    result = Fail(error, "there is no such device");
  }
  if (result != PluginResult::kOk) {
    Close(opened.release());
    return result;
  }
  std::memcpy(info, given.data(), sizeof *info);
  *device = opened.release();
  return result;
}

PluginResult LoadKernels(PluginDevice* device, PluginError* error) {
  return AskNumber(device, {.call = Call::kLoadKernels}, nullptr, nullptr, error);
}

PluginResult AllocateArrays(PluginDevice* device, const std::size_t* sizes_bytes, std::size_t count,
                            std::uint8_t** arrays, PluginError* error) {
  static_assert(sizeof *sizes_bytes == sizeof(std::uint64_t));
  static_assert(sizeof *arrays == sizeof(std::uint64_t));
  Reply reply;
  std::vector<std::uint8_t> given;
  const Request request{.call = Call::kAllocateArrays,
                        .payload_bytes = count * sizeof(std::uint64_t)};
  const PluginResult result = Ask(*device, request, sizes_bytes, reply, given, error);
  if (result != PluginResult::kOk) return result;
  if (given.size() != request.payload_bytes) return Fail(error, "other arrays were taken");
  std::memcpy(static_cast<void*>(arrays), given.data(), given.size());
  return result;
}

PluginResult AllocatePinned(PluginDevice* device, std::size_t size_bytes, std::uint8_t** bytes,
                            PluginError* error) {
  std::uint64_t place = 0;
  const Request request{.call = Call::kAllocatePinned, .size_bytes = size_bytes};
  const PluginResult result = AskNumber(device, request, nullptr, &place, error);
  if (result != PluginResult::kOk) return result;
  const std::size_t whole_bytes =
      (size_bytes + kPinnedAlignmentBytes) / kPinnedAlignmentBytes * kPinnedAlignmentBytes;
  *bytes = static_cast<std::uint8_t*>(std::aligned_alloc(kPinnedAlignmentBytes, whole_bytes));
  if (*bytes == nullptr) {
    Fail(error, "this process has too little memory");
    return PluginResult::kNoMemory;
  }
  device->pinned.push_back({*bytes, size_bytes, place});
  return result;
}

// 0: it is no pinned memory, which no process has there.
std::uint64_t PlaceOf(const PluginDevice& device, const std::uint8_t* bytes) {
  for (const PluginDevice::Pinned& pinned : device.pinned) {
    if (bytes >= pinned.bytes && bytes < pinned.bytes + pinned.size_bytes) {
      return pinned.place + static_cast<std::uint64_t>(bytes - pinned.bytes);
    }
  }
  return 0;
}

PluginResult MakeQueue(PluginDevice* device, std::uint32_t* queue, PluginError* error) {
  return AskId(device, {.call = Call::kMakeQueue}, queue, error);
}

PluginResult CopyIn(PluginDevice* device, std::uint32_t queue, std::uint8_t* to,
                    const std::uint8_t* pinned, std::size_t size_bytes, PluginError* error) {
  const Request request{.call = Call::kCopyIn,
                        .queue = queue,
                        .number = PlaceOf(*device, pinned),
                        .place = reinterpret_cast<std::uint64_t>(to),
                        .payload_bytes = size_bytes};
  return AskNumber(device, request, pinned, nullptr, error);
}

PluginResult CopyOut(PluginDevice* device, std::uint32_t queue, std::uint8_t* pinned,
                     const std::uint8_t* from, std::size_t size_bytes, PluginError* error) {
  const Request request{.call = Call::kCopyOut,
                        .queue = queue,
                        .number = PlaceOf(*device, pinned),
                        .place = reinterpret_cast<std::uint64_t>(from),
                        .size_bytes = size_bytes};
  const PluginResult result = AskNumber(device, request, nullptr, nullptr, error);
  if (result == PluginResult::kOk) device->copies_out.push_back({queue, pinned, size_bytes});
  return result;
}

PluginResult Launch(PluginDevice* device, std::uint32_t queue, std::uint32_t kernel,
                    const std::uint8_t* args, std::size_t args_bytes, PluginError* error) {
  const Request request{
      .call = Call::kLaunch, .queue = queue, .number = kernel, .payload_bytes = args_bytes};
  return AskNumber(device, request, args, nullptr, error);
}

PluginResult MakeMoment(PluginDevice* device, std::uint32_t* moment, PluginError* error) {
  return AskId(device, {.call = Call::kMakeMoment}, moment, error);
}

PluginResult Note(PluginDevice* device, std::uint32_t queue, std::uint32_t moment,
                  PluginError* error) {
  const Request request{.call = Call::kNote, .queue = queue, .number = moment};
  return AskNumber(device, request, nullptr, nullptr, error);
}

PluginResult Between(PluginDevice* device, std::uint32_t from, std::uint32_t to,
                     std::uint64_t* nanoseconds, PluginError* error) {
  const Request request{.call = Call::kBetween, .number = from, .place = to};
  return AskNumber(device, request, nullptr, nanoseconds, error);
}

PluginResult BeginGraph(PluginDevice* device, std::uint32_t queue, PluginError* error) {
  return AskNumber(device, {.call = Call::kBeginGraph, .queue = queue}, nullptr, nullptr, error);
}

PluginResult EndGraph(PluginDevice* device, std::uint32_t queue, std::uint32_t* graph,
                      PluginError* error) {
  return AskId(device, {.call = Call::kEndGraph, .queue = queue}, graph, error);
}

PluginResult CancelGraph(PluginDevice* device, std::uint32_t queue, PluginError* error) {
  return AskNumber(device, {.call = Call::kCancelGraph, .queue = queue}, nullptr, nullptr, error);
}

PluginResult RunGraph(PluginDevice* device, std::uint32_t queue, std::uint32_t graph,
                      PluginError* error) {
  const Request request{.call = Call::kRunGraph, .queue = queue, .number = graph};
  return AskNumber(device, request, nullptr, nullptr, error);
}

PluginResult DropGraph(PluginDevice* device, std::uint32_t graph, PluginError* error) {
  return AskNumber(device, {.call = Call::kDropGraph, .number = graph}, nullptr, nullptr, error);
}

PluginResult IsDone(PluginDevice* device, std::uint32_t queue, std::uint32_t* is_done,
                    PluginError* error) {
  Reply reply;
  std::vector<std::uint8_t> given;
  const Request request{.call = Call::kIsDone, .queue = queue};
  const PluginResult result = Ask(*device, request, nullptr, reply, given, error);
  *is_done = static_cast<std::uint32_t>(reply.number);
  if (result != PluginResult::kOk || *is_done == 0) return result;
  std::size_t offset = 0;
  std::erase_if(device->copies_out, [&](const PluginDevice::CopyOut& copy) {
    if (copy.queue != queue || offset + copy.size_bytes > given.size()) return false;
    std::memcpy(copy.to, given.data() + offset, copy.size_bytes);
    offset += copy.size_bytes;
    return true;
  });
  return result;
}

PluginApi MakeApi() {
  return {
      .abi_version = kPluginAbiVersion,
      .kernel_count = KernelList::kCount,
      .args_bytes = KernelList::kArgsBytes.data(),
      .names_hash = KernelList::NamesHash(),
      .version = kVersion.data(),
      .version_bytes = kVersion.size(),
      .count_devices = CountDevices,
      .open = Open,
      .close = Close,
      .load_kernels = LoadKernels,
      .allocate_arrays = AllocateArrays,
      .allocate_pinned = AllocatePinned,
      .make_queue = MakeQueue,
      .copy_in = CopyIn,
      .copy_out = CopyOut,
      .launch = Launch,
      .make_moment = MakeMoment,
      .note = Note,
      .between = Between,
      .begin_graph = BeginGraph,
      .end_graph = EndGraph,
      .cancel_graph = CancelGraph,
      .run_graph = RunGraph,
      .drop_graph = DropGraph,
      .is_done = IsDone,
  };
}

}  // namespace
}  // namespace kerf::cuda

extern "C" __attribute__((visibility("default"))) const kerf::cuda::PluginApi* kerf_cuda_plugin() {
  static const kerf::cuda::PluginApi api = kerf::cuda::MakeApi();
  return &api;
}
