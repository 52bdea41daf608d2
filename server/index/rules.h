// What an index says and writes, as pure functions: the same for every leaf. Why: index.h, ADR
// 0005.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/index/index.h"

namespace kerf::index_rules {

// No store counts further.
inline constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 62;
// Of a repository that is being dropped or whose epoch is being reset, durably, until that is done:
// no session has an epoch like it, so commits are refused, and nothing of it is believed.
inline constexpr std::uint64_t kClosedEpoch = kMaxEpoch + 1;

// What a session is told of an entry that is there.
inline Verdict VerdictOf(std::uint64_t entry_epoch, std::uint64_t repository_epoch,
                         std::uint64_t session_epoch) {
  if (repository_epoch == kClosedEpoch) return Verdict::kUnverified;
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

// What a lookup tells of the repository's epoch.
inline std::uint64_t EpochToTell(std::uint64_t repository_epoch) {
  return repository_epoch == kClosedEpoch ? 0 : repository_epoch;
}

// How far ahead of a repository's epoch another one may be. A store is ahead of an index that is
// new or lost, which is at 0, by all that it has counted; of one that is an old copy of itself, or
// that collections did not tell because they have died, by a few for each collection since then. A
// longer step nobody needs, and whoever may collect could take the epoch where nobody follows.
inline constexpr std::uint64_t kMaxFirstEpoch = std::uint64_t{1} << 40;
inline constexpr std::uint64_t kMaxEpochStep = std::uint64_t{1} << 20;

// The highest epoch that a call may name of a repository at that one.
inline std::uint64_t HighestEpochFrom(std::uint64_t repository_epoch) {
  if (repository_epoch == 0) return kMaxFirstEpoch;
  return std::min(kMaxEpoch, std::min(repository_epoch, kMaxEpoch) + kMaxEpochStep);
}

// InvalidArgument for the epoch of any call if no store can have counted that far. What it would
// write would be believed for ever, and no ForgetOlder would reach it.
inline absl::Status CheckNotAhead(std::uint64_t epoch, std::uint64_t repository_epoch) {
  const std::uint64_t highest = HighestEpochFrom(repository_epoch);
  if (epoch <= highest) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ToAbsl(Cat("epoch ", epoch, " is too far from ", repository_epoch,
                 ", where the index is: it may be ", highest,
                 " at most; if it is the store's, `kerf index rebuild` takes the index there, or "
                 "an operator's `kerf repo reset-epoch`")));
}

// EPOCH_BEHIND, which is FailedPrecondition: no other refusal of an index is that.
inline absl::Status EpochBehind(std::string_view why) {
  return MakeError(Reason::kEpochBehind,
                   Cat("the index: ", why,
                       "; read the store's epoch and what it holds again, and open a new stream "
                       "with that; if the epoch is still the same, the store was set back to an "
                       "older copy of itself: bring the newer one back, or accept this one with "
                       "`kerf repair --accept-set-back --apply` and run `kerf gc` once"));
}

// Of a repository at kClosedEpoch: EPOCH_BEHIND.
inline absl::Status CheckNotClosed(std::uint64_t repository_epoch) {
  if (repository_epoch != kClosedEpoch) return absl::OkStatus();
  return EpochBehind(
      "the repository is being dropped, or its epoch reset; if nobody does that now it was broken "
      "off: `kerf repo drop` or `kerf repo reset-epoch` is to be run again");
}

// EPOCH_BEHIND if `epoch` lies behind `before`, InvalidArgument if it is beyond the limits.
inline absl::Status CheckAdvance(std::uint64_t before, std::uint64_t epoch) {
  if (absl::Status status = CheckNotClosed(before); !status.ok()) return status;
  if (epoch < before) {
    return EpochBehind(
        Cat("the index of this repository is at epoch ", before, ", which is past ", epoch));
  }
  return CheckNotAhead(epoch, before);
}

// InvalidArgument for an epoch that ResetEpoch does not take.
inline absl::Status CheckReset(std::uint64_t epoch) {
  if (epoch <= kMaxEpoch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      ToAbsl(Cat("epoch ", epoch, ": no store counts beyond ", kMaxEpoch)));
}

// The epoch that an entry has once ResetEpoch of `epoch` is done.
inline std::uint64_t EpochAfterReset(std::uint64_t entry_epoch, std::uint64_t epoch) {
  return std::min(entry_epoch, epoch);
}

// Whether Forget of `locator` (empty: wherever it is) removes the entry at `held_locator`.
inline bool IsForgotten(std::string_view held_locator, std::string_view locator) {
  return locator.empty() || locator == held_locator;
}

// Whether ForgetOlder of `epoch` removes an entry.
inline bool IsOlder(std::uint64_t entry_epoch, std::uint64_t epoch) { return entry_epoch < epoch; }

}  // namespace kerf::index_rules
