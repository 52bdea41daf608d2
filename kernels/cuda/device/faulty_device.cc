#include "kernels/cuda/device/faulty_device.h"

#include <thread>

#include "base/status.h"

namespace kerf::cuda {
namespace {

constexpr std::size_t kDigestBytes = 32;
constexpr std::chrono::milliseconds kHangingPause{1};

}  // namespace

absl::Status FaultyDevice::Call() {
  if (is_armed_) {
    if (!is_armed_()) return absl::OkStatus();
    is_armed_ = nullptr;
  }
  const bool was_lost = IsTime(Fault::Kind::kLost);
  if (was_lost) ++late_call_count_;
  ++call_count_;
  while (IsTime(Fault::Kind::kHangs) && !(fault_.is_released && fault_.is_released())) {
    std::this_thread::sleep_for(kHangingPause);
  }
  if (IsTime(Fault::Kind::kLost)) return absl::InternalError("the test has lost this device");
  return absl::OkStatus();
}

absl::Status FaultyDevice::CheckMemory() {
  KERF_RETURN_IF_ERROR(Call());
  if (!IsTime(Fault::Kind::kNoMemory)) return absl::OkStatus();
  fault_.kind = Fault::Kind::kNone;
  return absl::ResourceExhaustedError("the test leaves no memory");
}

absl::Status FaultyDevice::LoadKernels() {
  KERF_RETURN_IF_ERROR(Call());
  return device_->LoadKernels();
}

absl::StatusOr<std::vector<std::uint8_t*>> FaultyDevice::AllocateArrays(
    std::span<const std::size_t> sizes_bytes) {
  KERF_RETURN_IF_ERROR(CheckMemory());
  return device_->AllocateArrays(sizes_bytes);
}

absl::StatusOr<std::span<std::uint8_t>> FaultyDevice::AllocatePinned(std::size_t size_bytes) {
  KERF_RETURN_IF_ERROR(CheckMemory());
  return device_->AllocatePinned(size_bytes);
}

absl::StatusOr<QueueId> FaultyDevice::MakeQueue() {
  KERF_RETURN_IF_ERROR(Call());
  return device_->MakeQueue();
}

absl::Status FaultyDevice::CopyIn(QueueId queue, std::uint8_t* to,
                                  std::span<const std::uint8_t> pinned) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->CopyIn(queue, to, pinned);
}

absl::Status FaultyDevice::CopyOut(QueueId queue, std::span<std::uint8_t> pinned,
                                   const std::uint8_t* from) {
  KERF_RETURN_IF_ERROR(Call());
  const bool is_wrong = IsTime(Fault::Kind::kWrongBits) || IsTime(Fault::Kind::kWrongDigest);
  if (is_wrong && !pinned.empty()) spoilt_.push_back({queue, pinned});
  return device_->CopyOut(queue, pinned, from);
}

absl::Status FaultyDevice::Launch(QueueId queue, std::size_t kernel,
                                  std::span<const std::uint8_t> args) {
  KERF_RETURN_IF_ERROR(Call());
  if (IsTime(Fault::Kind::kRefuses) && kernel == fault_.kernel) {
    return absl::FailedPreconditionError("the test refuses this kernel");
  }
  return device_->Launch(queue, kernel, args);
}

absl::StatusOr<MomentId> FaultyDevice::MakeMoment() {
  KERF_RETURN_IF_ERROR(Call());
  return device_->MakeMoment();
}

absl::Status FaultyDevice::Note(QueueId queue, MomentId moment) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->Note(queue, moment);
}

absl::StatusOr<std::chrono::nanoseconds> FaultyDevice::Between(MomentId from, MomentId to) {
  KERF_RETURN_IF_ERROR(Call());
  if (IsTime(Fault::Kind::kNoClock)) return absl::UnavailableError("the test has no clock");
  return device_->Between(from, to);
}

absl::Status FaultyDevice::BeginGraph(QueueId queue) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->BeginGraph(queue);
}

absl::StatusOr<GraphId> FaultyDevice::EndGraph(QueueId queue) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->EndGraph(queue);
}

absl::Status FaultyDevice::CancelGraph(QueueId queue) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->CancelGraph(queue);
}

absl::Status FaultyDevice::RunGraph(QueueId queue, GraphId graph) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->RunGraph(queue, graph);
}

absl::Status FaultyDevice::DropGraph(GraphId graph) {
  KERF_RETURN_IF_ERROR(Call());
  return device_->DropGraph(graph);
}

absl::StatusOr<bool> FaultyDevice::IsDone(QueueId queue) {
  KERF_RETURN_IF_ERROR(Call());
  if (IsTime(Fault::Kind::kSilent)) return false;
  KERF_ASSIGN_OR_RETURN(const bool is_done, device_->IsDone(queue));
  if (!is_done) return false;
  if (IsTime(Fault::Kind::kSlow)) {
    const auto now = std::chrono::steady_clock::now();
    const auto done = done_at_.try_emplace(queue, now).first;
    if (now - done->second < fault_.delay) return false;
    done_at_.erase(done);
  }
  Spoil(queue);
  return true;
}

void FaultyDevice::Spoil(QueueId queue) {
  std::span<std::uint8_t> last;
  std::erase_if(spoilt_, [&](const Spoilt& spoilt) {
    if (spoilt.queue != queue) return false;
    last = spoilt.pinned;
    if (fault_.kind == Fault::Kind::kWrongBits) last.front() ^= 1;
    return true;
  });
  if (fault_.kind == Fault::Kind::kWrongDigest && last.size() >= kDigestBytes) last.back() ^= 1;
}

}  // namespace kerf::cuda
