// For tests that count on files being known for unchanged.
#pragma once

#include <chrono>
#include <thread>

#include "client/fs/stamp_clock.h"

namespace kerf::agent::testing {

// Waits until the ctimes of what is there count for a backup: before, it reads each file again the
// next time, and the next one's metadata is another.
inline void LetFilesSettle() {
  std::this_thread::sleep_for(std::chrono::seconds(kSettleSeconds) +
                              std::chrono::milliseconds(100));
}

}  // namespace kerf::agent::testing
