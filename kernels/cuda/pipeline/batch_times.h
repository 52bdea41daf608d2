// Where the time of a batch on a device went.
#pragma once

#include <chrono>
#include <optional>

namespace kerf::cuda {

// By the device's clock, each from the end of the one before it, so that waiting for what other
// batches have on the device is in it.
struct BatchTimes {
  std::chrono::nanoseconds copy_in{0};
  std::chrono::nanoseconds mark{0};
  // Candidates, and cuts where the device selects.
  std::chrono::nanoseconds select{0};
  // Of the plans whose digests the device makes.
  std::optional<std::chrono::nanoseconds> digest;
  // With what the host takes to see how much there is to be fetched.
  std::chrono::nanoseconds copy_out{0};
};

}  // namespace kerf::cuda
