#include "client/store/packs/write_pace.h"

namespace kerf::agent {
namespace {

// How much of the sums each block leaves.
constexpr double kKept = 1 - 1.0 / 32;
// Before so many blocks the sums say little: a disk's first write may be its slowest.
constexpr int kMinNoted = 16;
// The harder effort takes about three times as long (docs/adr/0024): from here on it fits into what
// the threads wait anyway. Where it is just so, waiting still is a third of the harder effort:
// below that it would cost time.
constexpr double kEnterRatio = 4;
constexpr double kLeaveRatio = 0.3;

}  // namespace

void WritePace::Note(std::chrono::nanoseconds compressing, std::chrono::nanoseconds writing) {
  compressing_s_ = compressing_s_ * kKept + std::chrono::duration<double>(compressing).count();
  writing_s_ = writing_s_ * kKept + std::chrono::duration<double>(writing).count();
  if (noted_count_ < kMinNoted) {
    ++noted_count_;
    return;
  }
  const bool was_slow = disk_is_slow_;
  disk_is_slow_ = writing_s_ > (was_slow ? kLeaveRatio : kEnterRatio) * compressing_s_;
  if (disk_is_slow_ == was_slow) return;
  // How long blocks took with the other effort says nothing of those to come.
  compressing_s_ = writing_s_ = 0;
  noted_count_ = 0;
}

}  // namespace kerf::agent
