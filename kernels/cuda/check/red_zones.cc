#include "kernels/cuda/check/red_zones.h"

#include <algorithm>
#include <utility>

#include "base/status.h"
#include "base/strings.h"

namespace kerf::cuda {
namespace {

constexpr std::size_t kAlignmentBytes = 256;
// No kernel writes it by chance: neither a number that is small, nor one of a pattern of zeros and
// ones.
constexpr std::uint8_t kFilling = 0xB7;

}  // namespace

absl::StatusOr<std::vector<std::uint8_t*>> RedZones::AllocateArrays(
    std::span<const std::size_t> sizes_bytes) {
  KERF_RETURN_IF_ERROR(TakeOwn());
  std::vector<std::size_t> larger;
  for (const std::size_t size_bytes : sizes_bytes) {
    larger.push_back((size_bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes +
                     kZoneBytes);
  }
  KERF_ASSIGN_OR_RETURN(std::vector<std::uint8_t*> arrays, device_->AllocateArrays(larger));
  for (std::size_t index = 0; index < arrays.size(); ++index) {
    zones_.push_back({arrays[index] + sizes_bytes[index], larger[index] - sizes_bytes[index],
                      sizes_bytes[index]});
    KERF_RETURN_IF_ERROR(Fill(zones_.back()));
  }
  KERF_RETURN_IF_ERROR(Wait());
  return arrays;
}

absl::StatusOr<bool> RedZones::IsDone(QueueId queue) {
  KERF_ASSIGN_OR_RETURN(const bool is_done, device_->IsDone(queue));
  if (!is_done || are_known_) return is_done;
  // Others may go on meanwhile: nobody may write there at any time.
  for (const Zone& zone : zones_) KERF_RETURN_IF_ERROR(LookAt(zone));
  are_known_ = true;
  return true;
}

absl::Status RedZones::TakeOwn() {
  if (!filling_.empty()) return absl::OkStatus();
  constexpr std::size_t kMostBytes = kZoneBytes + kAlignmentBytes;
  KERF_ASSIGN_OR_RETURN(queue_, device_->MakeQueue());
  KERF_ASSIGN_OR_RETURN(found_, device_->AllocatePinned(kMostBytes));
  KERF_ASSIGN_OR_RETURN(filling_, device_->AllocatePinned(kMostBytes));
  std::fill(filling_.begin(), filling_.end(), kFilling);
  return absl::OkStatus();
}

// As long as it takes: whoever checks has a limit for the whole of it.
absl::Status RedZones::Wait() {
  while (true) {
    KERF_ASSIGN_OR_RETURN(const bool is_done, device_->IsDone(queue_));
    if (is_done) return absl::OkStatus();
  }
}

absl::Status RedZones::Fill(const Zone& zone) {
  return device_->CopyIn(queue_, zone.begin, filling_.first(zone.size_bytes));
}

absl::Status RedZones::LookAt(const Zone& zone) {
  const std::span<std::uint8_t> found = found_.first(zone.size_bytes);
  KERF_RETURN_IF_ERROR(device_->CopyOut(queue_, found, zone.begin));
  KERF_RETURN_IF_ERROR(Wait());
  const auto odd =
      std::find_if(found.begin(), found.end(), [](std::uint8_t byte) { return byte != kFilling; });
  if (odd == found.end()) return absl::OkStatus();
  return absl::InternalError(ToAbsl(Cat("a kernel has written ", odd - found.begin() + 1,
                                        " bytes behind an array of ", zone.array_bytes)));
}

OpenDevice WithRedZones(OpenDevice open) {
  return [open = std::move(open)]() -> absl::StatusOr<std::unique_ptr<Device>> {
    KERF_ASSIGN_OR_RETURN(std::unique_ptr<Device> device, open());
    return std::make_unique<RedZones>(std::move(device));
  };
}

}  // namespace kerf::cuda
