// What a stream has asked for and waits for.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "kernels/fingerprint/digest.h"
#include "server/index/index.h"

namespace kerf {

// A question to the index, or a piece that a GPU has. It owns all that they read and write, for it
// may outlive the stream. The strand's, except while it is not answered.
struct StreamCall {
  RepositoryId repository;
  std::uint64_t session_epoch = 0;
  // What is asked for.
  std::vector<Digest> digests;
  std::vector<LookupResult> results;
  // Of chunks to be answered: their digests, and what was known of them before: kDuplicate, or it
  // is the next of `results`. Nothing is known of any of them if it is empty.
  std::vector<Digest> chunk_digests;
  std::vector<LookupResult> foreseen;
  std::vector<IndexEntry> entries;
  absl::Status status;
  std::chrono::steady_clock::time_point asked_at;

  bool is_foreseen(std::size_t index) const {
    return !foreseen.empty() && foreseen[index].verdict == Verdict::kDuplicate;
  }

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
