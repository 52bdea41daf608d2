// Cuts and fingerprints one large file with several threads: the chunks are those of one thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kernels/fingerprint/digest.h"
#include "kernels/profile.h"
#include "kernels/registry.h"

namespace kerf::agent {

// What is read, cut and hashed at a time, while the next is read.
inline constexpr std::size_t kDefaultCutWindowBytes = 64 << 20;

struct ParallelFileOptions {
  Profile profile;
  // As MakeChunkerOf: one that implements the profile here.
  std::string backend = std::string(kAutomaticBackend);
  DigestAlgorithm digest = DigestAlgorithm::kBlake3;
  // With the calling one; at least 1. Another one reads. Fewer where the system has no more.
  std::size_t thread_count = 1;
  // At least the profile's max_bytes. Memory: two windows and two times max_bytes,
  // and for one window a quarter of its size for marks and 48 bytes a chunk.
  std::size_t window_bytes = kDefaultCutWindowBytes;
};

struct FileChunk {
  // Of the first byte in the file.
  std::uint64_t offset_bytes = 0;
  std::size_t length_bytes = 0;
  Digest digest;
};

// Reads `fd` from where it stands to its end and calls `take` with the chunks, window after window,
// in order, in the calling thread. Profiles without a TwoStageRule are cut by one thread and hashed
// by all. The error of the read that failed, or Cancelled when `cancelled` became true; chunks that
// were taken before are right.
absl::Status CutFileInParallel(int fd, const ParallelFileOptions& options,
                               const std::atomic<bool>& cancelled,
                               const std::function<void(std::span<const FileChunk>)>& take);

}  // namespace kerf::agent
