// Whether a pack writer's threads wait for the store's disk or for their own compressing.
#pragma once

#include <chrono>

namespace kerf::agent {

// Not thread-safe.
class WritePace {
 public:
  // One block took so long to compress, and to be written and, if it filled a pack, sealed.
  void Note(std::chrono::nanoseconds compressing, std::chrono::nanoseconds writing);

  // Compressing harder would cost no time: the disk takes it, and there is less to write. Stays
  // true while that is so with the harder compressing itself. It looks at the last few dozen
  // blocks.
  bool disk_is_slow() const { return disk_is_slow_; }

 private:
  // Sums that forget.
  double compressing_s_ = 0;
  double writing_s_ = 0;
  int noted_count_ = 0;
  bool disk_is_slow_ = false;
};

}  // namespace kerf::agent
