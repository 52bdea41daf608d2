// What an index says and writes, as pure functions: the same for every leaf. Why: index.h, ADR
// 0005.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"
#include "server/index/index.h"

namespace kerf::index_rules {

// What a session is told of an entry that is there.
inline Verdict VerdictOf(std::uint64_t entry_epoch, std::uint64_t repository_epoch,
                         std::uint64_t session_epoch) {
  return std::max(entry_epoch, repository_epoch) >= session_epoch ? Verdict::kDuplicate
                                                                  : Verdict::kUnverified;
}

// The epoch with which a commit writes its entry over that of `held_epoch` (none: the digest is
// new); nothing if what is there stays. The session does not lie behind the repository's epoch.
inline std::optional<std::uint64_t> EpochToWrite(std::optional<std::uint64_t> held_epoch,
                                                 std::uint64_t repository_epoch,
                                                 std::uint64_t session_epoch, bool replace) {
  if (!held_epoch.has_value()) return session_epoch;
  const bool holds = VerdictOf(*held_epoch, repository_epoch, session_epoch) == Verdict::kDuplicate;
  if (holds && !replace) return std::nullopt;
  return std::max(*held_epoch, session_epoch);
}

// A repository's epoch only rises. A step that no store can have made would leave none for those
// that come. A store may well be ahead of its index, which is new, or has gone back, or was not
// told by collections that have died: but each of them counts by a few.
inline constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 62;
inline constexpr std::uint64_t kMaxEpochStep = std::uint64_t{1} << 32;

// InvalidArgument for the epoch of any call if no store can have counted that far. What it would
// write would be believed for ever, and no ForgetOlder would reach it.
inline absl::Status CheckNotAhead(std::uint64_t epoch, std::uint64_t repository_epoch) {
  const bool is_ahead = epoch > repository_epoch && epoch - repository_epoch > kMaxEpochStep;
  if (epoch <= kMaxEpoch && !is_ahead) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ToAbsl(Cat("epoch ", epoch, " is too far from ", repository_epoch,
                 ", where the index is: a step is ", kMaxEpochStep, " at most, and an epoch ",
                 kMaxEpoch, "; if it is the store's, `kerf index rebuild` takes the index there")));
}

// FailedPrecondition if `epoch` lies behind `before`, InvalidArgument if it is beyond the limits.
inline absl::Status CheckAdvance(std::uint64_t before, std::uint64_t epoch) {
  if (epoch < before) {
    return absl::FailedPreconditionError(ToAbsl(
        Cat("the index of this repository is at epoch ", before, ", which is past ", epoch)));
  }
  return CheckNotAhead(epoch, before);
}

// Whether Forget of `locator` (empty: wherever it is) removes the entry at `held_locator`.
inline bool IsForgotten(std::string_view held_locator, std::string_view locator) {
  return locator.empty() || locator == held_locator;
}

// Whether ForgetOlder of `epoch` removes an entry.
inline bool IsOlder(std::uint64_t entry_epoch, std::uint64_t epoch) { return entry_epoch < epoch; }

}  // namespace kerf::index_rules
