// A device between whose arrays there is memory that nobody may write to.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/device.h"
#include "kernels/cuda/device/open_device.h"

namespace kerf::cuda {

// Arrays lie in one allocation, where no checker of CUDA's sees a kernel that runs over from one
// into the next. So there is a zone behind each, which is looked at whenever a queue has run what
// it was given: Internal says behind which array somebody has written. Of accesses that read it
// tells nothing. For checks: it copies some bytes for each array and batch.
class RedZones final : public Device {
 public:
  // Behind each array.
  static constexpr std::size_t kZoneBytes = 4096;

  explicit RedZones(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  const DeviceInfo& info() const override { return device_->info(); }
  absl::Status LoadKernels() override { return device_->LoadKernels(); }
  absl::StatusOr<std::vector<std::uint8_t*>> AllocateArrays(
      std::span<const std::size_t> sizes_bytes) override;
  absl::StatusOr<std::span<std::uint8_t>> AllocatePinned(std::size_t size_bytes) override {
    return device_->AllocatePinned(size_bytes);
  }
  absl::StatusOr<QueueId> MakeQueue() override { return device_->MakeQueue(); }
  absl::Status CopyIn(QueueId queue, std::uint8_t* to,
                      std::span<const std::uint8_t> pinned) override {
    return device_->CopyIn(queue, to, pinned);
  }
  absl::Status CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                       const std::uint8_t* from) override {
    return device_->CopyOut(queue, pinned, from);
  }
  absl::Status Launch(QueueId queue, std::size_t kernel,
                      std::span<const std::uint8_t> args) override {
    are_known_ = false;
    return device_->Launch(queue, kernel, args);
  }
  absl::StatusOr<MomentId> MakeMoment() override { return device_->MakeMoment(); }
  absl::Status Note(QueueId queue, MomentId moment) override {
    return device_->Note(queue, moment);
  }
  absl::StatusOr<std::chrono::nanoseconds> Between(MomentId from, MomentId to) override {
    return device_->Between(from, to);
  }
  absl::Status BeginGraph(QueueId queue) override { return device_->BeginGraph(queue); }
  absl::StatusOr<GraphId> EndGraph(QueueId queue) override { return device_->EndGraph(queue); }
  absl::Status CancelGraph(QueueId queue) override { return device_->CancelGraph(queue); }
  absl::Status RunGraph(QueueId queue, GraphId graph) override {
    are_known_ = false;
    return device_->RunGraph(queue, graph);
  }
  absl::Status DropGraph(GraphId graph) override { return device_->DropGraph(graph); }
  absl::StatusOr<bool> IsDone(QueueId queue) override;

 private:
  struct Zone {
    std::uint8_t* begin;
    std::size_t size_bytes;
    // Of the array in front of it.
    std::size_t array_bytes;
  };

  absl::Status TakeOwn();
  absl::Status Wait();
  absl::Status Fill(const Zone& zone);
  absl::Status LookAt(const Zone& zone);

  const std::unique_ptr<Device> device_;
  std::vector<Zone> zones_;
  // Nothing has run since they were looked at.
  bool are_known_ = true;
  // Of its own, with what zones are filled with and what comes back; empty before there are zones.
  QueueId queue_{};
  std::span<std::uint8_t> filling_;
  std::span<std::uint8_t> found_;
};

// Devices of `open`, with zones.
OpenDevice WithRedZones(OpenDevice open);

}  // namespace kerf::cuda
