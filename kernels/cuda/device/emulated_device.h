// A device whose kernels run in the emulator, at the moments that are worst for whoever uses it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/kernel_types.h"
#include "kernels/cuda/device/memory_watcher.h"
#include "kernels/cuda/launch/emulator.h"
#include "kernels/cuda/launch/portable.h"

namespace kerf::cuda {

struct EmulatedKernel {
  std::function<void(std::span<const std::uint8_t> args, const EmulatorOptions& options)> run;
  // Of a block.
  std::size_t shared_bytes;
};

// By number.
template <class... Kernels>
std::vector<EmulatedKernel> EmulatedKernelsOf(KernelTypes<Kernels...>) {
  return {{[](std::span<const std::uint8_t> bytes, const EmulatorOptions& options) {
             typename Kernels::Args args;
             KERF_CHECK(bytes.size() == sizeof args);
             std::memcpy(&args, bytes.data(), sizeof args);
             Emulate<Kernels>(args, options);
           },
           sizeof(typename Kernels::Shared)}...};
}

struct EmulatedDeviceOptions {
  std::vector<EmulatedKernel> kernels;
  // Of device and pinned memory each.
  std::size_t memory_bytes = std::size_t{1} << 30;
  // Commands run when somebody asks whether they are done: with a seed some of them, of any queue,
  // and kernels in a random order of threads; without one all of them.
  std::optional<std::uint64_t> seed = std::nullopt;
  // What a block may have: kernels that need more cannot be launched.
  std::size_t shared_bytes = kMaxSharedBytes;
  // What a driver takes to compile the kernels, all at once: in LoadKernels, or in the first
  // launch.
  std::chrono::milliseconds load_time{0};
  // Behind each array of the device's memory, nobody's.
  std::size_t gap_bytes = 0;
  // Is told of memory and copies; outlives the device.
  MemoryWatcher* watcher = nullptr;
  // Asked when commands have run: what is wrong with the device.
  std::function<absl::Status()> health = [] { return absl::OkStatus(); };
  std::string name = "emulator";
};

// A copy that leaves what was allocated stops the process, as does what Device does not allow.
class EmulatedDevice final : public Device {
 public:
  explicit EmulatedDevice(EmulatedDeviceOptions options);

  const DeviceInfo& info() const override { return info_; }
  absl::Status LoadKernels() override;
  // That were made and not dropped.
  std::size_t graph_count() const;
  std::uint64_t made_graph_count() const { return made_graph_count_; }
  // Words of 4 bytes that were copied to the host and that nobody had written, or that look like
  // it: one word in 2^32 does.
  std::uint64_t unwritten_word_count() const { return unwritten_word_count_; }
  // Of the device: it goes on by a nanosecond for each byte that is copied, by kLaunchTime for each
  // launch, and otherwise not.
  std::chrono::nanoseconds clock() const { return clock_; }
  static constexpr std::chrono::microseconds kLaunchTime{7};
  absl::StatusOr<std::vector<std::uint8_t*>> AllocateArrays(
      std::span<const std::size_t> sizes_bytes) override;
  absl::StatusOr<std::span<std::uint8_t>> AllocatePinned(std::size_t size_bytes) override;
  absl::StatusOr<QueueId> MakeQueue() override;
  absl::Status CopyIn(QueueId queue, std::uint8_t* to,
                      std::span<const std::uint8_t> pinned) override;
  absl::Status CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                       const std::uint8_t* from) override;
  absl::Status Launch(QueueId queue, std::size_t kernel,
                      std::span<const std::uint8_t> args) override;
  absl::StatusOr<MomentId> MakeMoment() override;
  absl::Status Note(QueueId queue, MomentId moment) override;
  absl::StatusOr<std::chrono::nanoseconds> Between(MomentId from, MomentId to) override;
  absl::Status BeginGraph(QueueId queue) override;
  absl::StatusOr<GraphId> EndGraph(QueueId queue) override;
  absl::Status CancelGraph(QueueId queue) override;
  absl::Status RunGraph(QueueId queue, GraphId graph) override;
  absl::Status DropGraph(GraphId graph) override;
  absl::StatusOr<bool> IsDone(QueueId queue) override;

 private:
  struct FreeBytes {
    void operator()(std::uint8_t* bytes) const;
  };
  // Blocks of memory of one kind, and how much may still be taken.
  struct Memory {
    std::size_t left_bytes;
    std::vector<std::unique_ptr<std::uint8_t, FreeBytes>> blocks;
    std::vector<std::span<const std::uint8_t>> ranges;
  };
  using Command = std::function<void()>;
  using Commands = std::deque<Command>;

  static absl::Status CheckRoom(const Memory& memory, std::size_t size_bytes);
  // There is room.
  static std::span<std::uint8_t> Take(Memory& memory, std::size_t size_bytes,
                                      std::size_t gap_bytes);
  static bool Holds(const Memory& memory, std::span<const std::uint8_t> bytes);
  Commands& At(QueueId queue);
  Commands& At(GraphId graph);
  // Into the queue, or into what is recorded of it.
  void Put(QueueId queue, Command command);
  void RunFirst(Commands& commands);

  const EmulatedDeviceOptions options_;
  const DeviceInfo info_;
  std::optional<Random> random_;
  Memory device_memory_;
  Memory pinned_memory_;
  // deque: commands may not move while they run.
  std::deque<Commands> queues_;
  std::optional<QueueId> recording_;
  Commands recorded_;
  // Since a launch of it was refused.
  bool is_recording_void_ = false;
  bool are_kernels_loaded_ = false;
  // Empty where one was dropped; a number is given anew as soon as it can be.
  std::vector<std::optional<Commands>> graphs_;
  std::uint64_t made_graph_count_ = 0;
  std::uint64_t unwritten_word_count_ = 0;
  std::chrono::nanoseconds clock_{0};
  // By number; none: never noted.
  std::vector<std::optional<std::chrono::nanoseconds>> moments_;
};

}  // namespace kerf::cuda
