// Whether what broke is worth another try, and when: for streams that are lost.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/limits.h"
#include "base/random.h"

namespace kerf::client {

// How a call that ended badly is to be treated: by the reasons of docs/spec/protocol.md, without a
// wildcard. What is on no list is final; so is what may be tried again there, but only by a client
// that does something else first (INDEX_FULL, TOO_MANY_UNCOMMITTED_CHUNKS and _FILES,
// CONTENT_MISMATCH): an agent keeps those limits, and tells its user of the others.
enum class Loss : std::uint8_t {
  kFinal,
  // The server's bug, or that of its machine: another one may not have it.
  kRetryOnce,
  // Certificates: they may be about to be changed, at both ends; else it helps nobody.
  kRetryBriefly,
  kRetry,
};

// Of a status of FromGrpc. The connection of a call that was cancelled has broken; a client that
// cancels itself must know that it did.
Loss LossOf(const absl::Status& status);

// The same of a call that may be made twice: one whose own deadline came first, or that of a front
// (DEADLINE_EXCEEDED without a reason), was carried out, or will be, or not, and is tried again. A
// stream has no deadline.
Loss LossOfRepeatable(const absl::Status& status);

// The reason that kerfd or a front gave; empty: the status is gRPC's own, and nobody may have been
// there.
std::string ReasonOfLoss(const absl::Status& status);

// `status`, which says in other words how the call ended that ended with `call`: it knows that
// one's request id (failed_call.h), and to ReasonOfCall its reason. To LossOf it is what it was.
absl::Status OfCall(const absl::Status& status, const absl::Status& call);
// ReasonOfLoss, also of what OfCall has given.
std::string ReasonOfCall(const absl::Status& status);

// Whether the caller, or the repository, has had as much as it may have (QUOTA_EXCEEDED).
bool IsQuotaExceeded(const absl::Status& status);

// Whether the server was met and has no room for this call now, or its caller has had as many as it
// may have for a while (QUOTA_EXCEEDED with a time to wait, TOO_MANY_CALLS, MEMORY_EXHAUSTED): the
// same call is taken later.
bool HasNoRoomNow(const absl::Status& status);

// Whether a server was met that stops, or a front behind which nobody can take this call now
// (DRAINING, NO_WORKER, WORKER_UNREACHABLE), as while they are restarted one after another. The
// call may have been carried out.
bool IsAwayNow(const absl::Status& status);

// Whether the client itself said nothing in the middle of a file for as long as the server bears it
// (IDLE_TIMEOUT).
bool IsOwnSilence(const absl::Status& status);

// Whether what came of a file is not what the client has hashed (CONTENT_MISMATCH).
bool IsContentMismatch(const absl::Status& status);

// Which file of its stream it names, from 1; nothing if it names none.
std::optional<std::uint64_t> FileNumberOfLoss(const absl::Status& status);

// Whether the index was not reached, or has not answered in time (INDEX_UNAVAILABLE, a deadline).
bool IsIndexUnavailable(const absl::Status& status);

// Whether another worker may do better than the one that has ended a stream so, or was silent: it
// has no index, or cannot be reached.
bool IsWorkersFault(const absl::Status& status);

// The worker that a front says it is about; empty: none.
std::string WorkerOfLoss(const absl::Status& status);

// Why TLS with a server comes to nothing: Unauthenticated, and LossOf knows it. No server says so.
absl::Status TlsTrouble(std::string_view why);
bool IsTlsTrouble(const absl::Status& status);

// For how long the server asked to be left alone; 0 if it did not.
std::chrono::milliseconds AskedWaitOf(const absl::Status& status);

// At most so much is tried without progress, whichever is met first.
struct RetryLimits {
  std::chrono::milliseconds time = limits::kRetryFor;
  int tries = std::numeric_limits<int>::max();
  // Waits grow from the first to the longest, twice as long each time, and of each a random part of
  // up to one half is left out: those who lost one server do not come to the next one all at once.
  std::chrono::milliseconds first_wait = limits::kFirstRetryWait;
  std::chrono::milliseconds longest_wait = limits::kLongestRetryWait;
  // In place of `time` for what is kRetryBriefly, if that is less: a few times as long as servers
  // and agents need to see that files have changed.
  std::chrono::milliseconds brief_time{10'000};
};

// What one client has tried since it last got on. Time is given by the caller, and never goes back.
// Not thread-safe.
class RetryPlan {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  RetryPlan(const RetryLimits& limits, std::uint64_t seed) : limits_(limits), random_(seed) {}

  // Something has been got: the limits begin anew, but for what is tried once.
  void Progress() { tries_ = 0; }
  // So does that, for another file (CLI-14).
  void BeginFile() { once_count_ = 0; }

  // A try has failed. How long to wait until the next one, never less than was asked for; nothing
  // if this is the end.
  std::optional<std::chrono::milliseconds> WaitAfter(Loss loss, std::chrono::milliseconds asked,
                                                     TimePoint now);

  // Since the last progress.
  int tries() const { return tries_; }
  std::chrono::milliseconds TriedFor(TimePoint now) const;

 private:
  const RetryLimits limits_;
  Random random_;
  int tries_ = 0;
  int once_count_ = 0;
  TimePoint first_loss_;
};

// What ends an upload that has tried for long enough: `loss` was the last of its losses, and its
// reason and request id are this one's, too. No server says so.
absl::Status GaveUp(const RetryPlan& plan, std::span<const std::string> servers,
                    const absl::Status& loss, RetryPlan::TimePoint now);
bool HasGivenUp(const absl::Status& status);

}  // namespace kerf::client
