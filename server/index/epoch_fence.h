// Keeps commits and AdvanceEpoch apart, for every leaf in the same way (ADR 0005).
#pragma once

#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "absl/status/status.h"
#include "base/strings.h"
#include "server/index/rules.h"

namespace kerf {

// A commit that was let in is complete before an AdvanceEpoch goes on, and a commit that comes
// later sees the new epoch. Thread-safe.
class EpochFence {
 public:
  // Held while a commit checks the repository's epoch and writes; many at a time.
  std::shared_lock<std::shared_mutex> EnterCommit() {
    const std::lock_guard turn(turnstile_);
    return std::shared_lock(mutex_);
  }

  // Held while an epoch is read, compared and raised; alone.
  std::unique_lock<std::shared_mutex> EnterAdvance() {
    const std::lock_guard turn(turnstile_);
    return std::unique_lock(mutex_);
  }

 private:
  // Everyone goes through it to get in, so that commits without end cannot starve an AdvanceEpoch:
  // a std::shared_mutex alone prefers readers.
  std::mutex turnstile_;
  std::shared_mutex mutex_;
};

// EPOCH_BEHIND where a commit of that session comes too late, InvalidArgument where it is of
// an epoch that no store can have (rules.h).
inline absl::Status CheckSessionEpoch(std::uint64_t session_epoch, std::uint64_t repository_epoch) {
  if (absl::Status status = index_rules::CheckNotClosed(repository_epoch); !status.ok()) {
    return status;
  }
  if (session_epoch >= repository_epoch) {
    return index_rules::CheckNotAhead(session_epoch, repository_epoch);
  }
  return index_rules::EpochBehind(Cat("the session's epoch ", session_epoch,
                                      " lies behind the repository's epoch ", repository_epoch,
                                      ": a collection of garbage ran"));
}

}  // namespace kerf
