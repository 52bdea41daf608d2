// What the plug-in and the process that has the device say to each other, over a socket: a request,
// with a payload, for each call of the plug-in's interface, and a reply. Both are built from one
// tree and run on one machine.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

namespace kerf::cuda::ptx {

enum class Call : std::uint32_t {
  // Payload of the reply: PluginDeviceInfo, where there is such a device. Number: how many.
  kOpen,
  kLoadKernels,
  // Payloads: sizes as std::uint64_t, places as std::uint64_t.
  kAllocateArrays,
  // Of `size_bytes`. Number: its place.
  kAllocatePinned,
  kMakeQueue,
  // Payload: what is copied to `place` by way of pinned memory at `number`.
  kCopyIn,
  // To pinned memory at `number` from `place`.
  kCopyOut,
  // Payload: the argument of kernel `number`.
  kLaunch,
  kMakeMoment,
  // Of `number`.
  kNote,
  // From `number` to `place`.
  kBetween,
  kBeginGraph,
  kEndGraph,
  kCancelGraph,
  kRunGraph,
  kDropGraph,
  // Number: whether. Payload, if so: what was copied out since, one behind the other.
  kIsDone,
};

struct Request {
  Call call{};
  std::uint32_t queue = 0;
  std::uint64_t number = 0;
  std::uint64_t place = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t payload_bytes = 0;
};

struct Reply {
  // A PluginResult.
  std::int64_t result = 0;
  std::uint64_t number = 0;
  std::uint64_t payload_bytes = 0;
  // Why.
  char text[256] = {};
};

// False: the other side is gone.
inline bool SendAll(int socket, const void* bytes, std::size_t size_bytes) {
  const char* rest = static_cast<const char*>(bytes);
  while (size_bytes > 0) {
    const ssize_t count = send(socket, rest, size_bytes, MSG_NOSIGNAL);
    if (count <= 0) return false;
    rest += count;
    size_bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

inline bool ReceiveAll(int socket, void* bytes, std::size_t size_bytes) {
  char* rest = static_cast<char*>(bytes);
  while (size_bytes > 0) {
    const ssize_t count = recv(socket, rest, size_bytes, MSG_WAITALL);
    if (count <= 0) return false;
    rest += count;
    size_bytes -= static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace kerf::cuda::ptx
