// What a stream has asked for and waits for.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/cuda/pipeline/piece_cuts.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

// A question to the index, or to the GPU. It owns all that they read and write, for it may outlive
// the stream. The strand's, except while it is not answered.
struct StreamCall {
  RepositoryId repository;
  std::uint64_t session_epoch = 0;
  std::vector<Digest> digests;
  std::vector<LookupResult> results;
  std::vector<IndexEntry> entries;
  cuda::PieceCuts cuts;
  absl::Status status;

  enum class Phase : std::uint8_t {
    kAsked,
    // The strand has gone to sleep: whoever answers wakes it.
    kAwaited,
    kAnswered,
    // The stream has ended: nobody is to be woken.
    kDropped,
  };
  std::atomic<Phase> phase{Phase::kAsked};
};

}  // namespace kerf
