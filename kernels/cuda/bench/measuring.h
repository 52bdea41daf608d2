// Clocks around what a device does.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status.h"
#include "base/strings.h"
#include "kernels/cuda/device/device.h"

namespace kerf::cuda {

using MeasuringClock = std::chrono::steady_clock;

// DeadlineExceeded behind `timeout`.
inline absl::Status WaitForQueue(Device& device, QueueId queue, std::chrono::milliseconds timeout) {
  const auto deadline = MeasuringClock::now() + timeout;
  while (true) {
    KERF_ASSIGN_OR_RETURN(const bool is_done, device.IsDone(queue));
    if (is_done) return absl::OkStatus();
    if (MeasuringClock::now() > deadline) {
      return absl::DeadlineExceededError(
          Cat("the device has not done in ", timeout.count(), " ms what takes it a few"));
    }
  }
}

// How long repeat(count), which does something so many times and returns a status, takes for one
// time: the median of `rounds`, each of as many times as take `round_time`, but for one that warms
// up and tells how many that are.
template <class Repeat>
absl::StatusOr<double> SecondsOfOne(std::uint32_t rounds, std::chrono::microseconds round_time,
                                    Repeat&& repeat) {
  const auto seconds_of = [&](std::size_t count) -> absl::StatusOr<double> {
    const auto start = MeasuringClock::now();
    KERF_RETURN_IF_ERROR(repeat(count));
    const std::chrono::duration<double> time = MeasuringClock::now() - start;
    return std::max(time.count(), 1e-9) / static_cast<double>(count);
  };
  KERF_RETURN_IF_ERROR(seconds_of(1).status());
  KERF_ASSIGN_OR_RETURN(const double first, seconds_of(1));
  constexpr double kMostTimes = 256;
  const double wanted = std::chrono::duration<double>(round_time).count() / first;
  const auto count = static_cast<std::size_t>(std::clamp(wanted, 1.0, kMostTimes));
  std::vector<double> seconds;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    KERF_ASSIGN_OR_RETURN(const double one, seconds_of(count));
    seconds.push_back(one);
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

}  // namespace kerf::cuda
