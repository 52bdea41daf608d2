// Holds chunks against the digests that a server has given them, many at a time.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "kernels/fingerprint/digest.h"

namespace kerf::agent {

// For chunks that go nowhere else: one chunk alone takes up to three times as long to fingerprint
// as one among many. Keeps copies of some that wait, half a MiB at most, and one such batch for
// each thread in Add. Thread-safe.
class DigestCheck {
 public:
  explicit DigestCheck(DigestAlgorithm algorithm) : algorithm_(algorithm) {}

  // DataLoss if this chunk, or any that was added before, does not have its digest: at once or with
  // a later call, and from then on with each.
  absl::Status Add(const Digest& digest, std::span<const std::uint8_t> bytes);

  // OK if all that was added before has its digest.
  absl::Status Finish();

 private:
  struct Chunk {
    Digest digest;
    std::size_t length_bytes = 0;
  };
  struct Batch {
    // One behind the other.
    std::vector<std::uint8_t> bytes;
    std::vector<Chunk> chunks;
  };

  absl::Status CheckWaiting(std::unique_lock<std::mutex>& lock);
  absl::Status Check(const Batch& batch) const;
  absl::Status Compare(const Digest& digest, const Digest& own, std::size_t length_bytes) const;

  const DigestAlgorithm algorithm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Batch waiting_;
  // Memory of batches that were checked.
  std::vector<std::vector<std::uint8_t>> spare_buffers_;
  std::size_t running_count_ = 0;
  absl::Status failure_;
};

}  // namespace kerf::agent
