// A device that goes wrong at a call that the test chooses.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cuda/device/device.h"

namespace kerf::cuda {

struct Fault {
  enum class Kind {
    kNone,
    // The call fails, and every one after it.
    kLost,
    // Nothing is ever done again.
    kSilent,
    // Every copy to the host brings a bit that is wrong.
    kWrongBits,
    // Only the last one before a queue is done does, and only if it is as long as a digest: a
    // fingerprint is wrong, and all else makes sense.
    kWrongDigest,
    // What is done is so only after `delay`.
    kSlow,
    // The next allocation fails.
    kNoMemory,
    // It cannot tell what time it was.
    kNoClock,
    // It cannot run one kernel.
    kRefuses,
    // The call does not return, nor any after it, until is_released says so.
    kHangs,
  };
  Kind kind = Kind::kNone;
  // From this call on, counted from 0.
  std::uint64_t call = 0;
  // Of kRefuses: its number.
  std::size_t kernel = 0;
  // Of kSlow.
  std::chrono::milliseconds delay{0};
  // Of kHangs; empty: never. Asked again and again, by the thread that calls.
  std::function<bool()> is_released = {};
};

// Not thread-safe.
class FaultyDevice : public Device {
 public:
  // Calls are counted from when `is_armed` says so for the first time; empty: all are.
  FaultyDevice(std::unique_ptr<Device> device, Fault fault,
               std::function<bool()> is_armed = nullptr)
      : device_(std::move(device)), fault_(fault), is_armed_(std::move(is_armed)) {}

  // So far.
  std::uint64_t call_count() const { return call_count_; }
  // Calls after the one that failed, which nobody should make.
  std::uint64_t late_call_count() const { return late_call_count_; }

  const DeviceInfo& info() const override { return device_->info(); }
  absl::Status LoadKernels() override;
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
  // Counts a call; what it fails with.
  absl::Status Call();
  bool IsTime(Fault::Kind kind) const { return fault_.kind == kind && call_count_ > fault_.call; }
  absl::Status CheckMemory();
  // Before the host hears that the queue is done.
  void Spoil(QueueId queue);

  const std::unique_ptr<Device> device_;
  Fault fault_;
  // Empty: it has said so.
  std::function<bool()> is_armed_;
  // Of kSlow, by queue: when the device was done.
  std::map<QueueId, std::chrono::steady_clock::time_point> done_at_;
  std::uint64_t call_count_ = 0;
  std::uint64_t late_call_count_ = 0;
  // What is to be spoilt when its queue is done.
  struct Spoilt {
    QueueId queue;
    std::span<std::uint8_t> pinned;
  };
  std::vector<Spoilt> spoilt_;
};

}  // namespace kerf::cuda
