// What kerf asks of a GPU: memory, queues, copies and launches. In a released kerfd a CUDA device
// answers it through the plug-in (kernels/cuda/plugin), in tests the emulator or one that fails on
// purpose.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kerf::cuda {

struct DeviceInfo {
  std::string name;
  std::uint64_t memory_bytes = 0;
};

// Commands of one queue run one after another, those of different queues beside each other.
enum class QueueId : std::uint32_t {};
// Commands that were recorded once, to be started again and again as one.
enum class GraphId : std::uint32_t {};
// A place among the commands of a queue, and when the device came there last.
enum class MomentId : std::uint32_t {};

// Every call may be the one that tells of what went wrong on the device before it. Unless a
// function says otherwise an error is Internal and the device is lost: nothing but its destructor
// is called after that. FailedPrecondition, of those that may say so: the device has not what a
// kernel needs, runs nothing of what was asked, and is well. Memory, queues and moments live until
// the device goes: kerf takes all that it needs at start. Not thread-safe.
class Device {
 public:
  virtual ~Device() = default;

  virtual const DeviceInfo& info() const = 0;

  // Makes all kernels ready, where a driver may have to compile them: that takes it minutes at
  // worst, here or else when they are launched first. Kernels for which the device has not what
  // they need are no error before they are launched.
  virtual absl::Status LoadKernels() = 0;

  // Memory of the device for arrays of these sizes, each at a multiple of 256, with anything in it.
  // All of them or none: ResourceExhausted if there is not enough; the device is well then.
  // Nothing is promised of what lies between two of them.
  virtual absl::StatusOr<std::vector<std::uint8_t*>> AllocateArrays(
      std::span<const std::size_t> sizes_bytes) = 0;
  // Of one.
  absl::StatusOr<std::uint8_t*> Allocate(std::size_t size_bytes);
  // Memory of the host that copies go from and to. The same errors.
  virtual absl::StatusOr<std::span<std::uint8_t>> AllocatePinned(std::size_t size_bytes) = 0;

  virtual absl::StatusOr<QueueId> MakeQueue() = 0;

  // Pinned memory is read and written when the command runs, not when it is queued.
  virtual absl::Status CopyIn(QueueId queue, std::uint8_t* to,
                              std::span<const std::uint8_t> pinned) = 0;
  virtual absl::Status CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                               const std::uint8_t* from) = 0;
  // `args` are the bytes of the Args of the kernel of that number, and are copied. May be
  // FailedPrecondition.
  virtual absl::Status Launch(QueueId queue, std::size_t kernel,
                              std::span<const std::uint8_t> args) = 0;

  virtual absl::StatusOr<MomentId> MakeMoment() = 0;
  // Notes when all is done that was put into the queue before, in place of what was noted before.
  virtual absl::Status Note(QueueId queue, MomentId moment) = 0;
  // By the device's clock, between two that were noted one behind the other by commands that are
  // done. Unavailable: it cannot tell, and is well.
  virtual absl::StatusOr<std::chrono::nanoseconds> Between(MomentId from, MomentId to) = 0;

  // Launches and moments between the two are recorded and not run; nothing else is put into the
  // queue there. EndGraph may be FailedPrecondition.
  virtual absl::Status BeginGraph(QueueId queue) = 0;
  virtual absl::StatusOr<GraphId> EndGraph(QueueId queue) = 0;
  // In place of EndGraph, which may not follow a launch that was FailedPrecondition: what was
  // recorded is forgotten.
  virtual absl::Status CancelGraph(QueueId queue) = 0;
  // `queue` may be another one than that of the recording. May be FailedPrecondition.
  virtual absl::Status RunGraph(QueueId queue, GraphId graph) = 0;
  // All that it was run for is done. Its number may come again.
  virtual absl::Status DropGraph(GraphId graph) = 0;

  // Whether all that was put into the queue has run. Does not wait.
  virtual absl::StatusOr<bool> IsDone(QueueId queue) = 0;
};

inline absl::StatusOr<std::uint8_t*> Device::Allocate(std::size_t size_bytes) {
  absl::StatusOr<std::vector<std::uint8_t*>> arrays = AllocateArrays({&size_bytes, 1});
  if (!arrays.ok()) return arrays.status();
  return arrays->front();
}

// Launches the kernel of `List`, a KernelTypes.
template <class List, class Kernel>
absl::Status LaunchOf(Device& device, QueueId queue, const typename Kernel::Args& args) {
  return device.Launch(queue, List::template NumberOf<Kernel>(),
                       {reinterpret_cast<const std::uint8_t*>(&args), sizeof args});
}

}  // namespace kerf::cuda
