// Every error that kerfd answers: one table of reasons, and the status that carries one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"

namespace kerf {

// Documented, one line each, in docs/spec/protocol.md; reasons are never renamed or reused.
enum class Reason : std::uint8_t {
  kMalformedMessage,
  kMessageTooLarge,
  kFrameOrder,
  kBadField,
  kUnknownDigest,
  kUnfinishedFile,
  kProfileTooLarge,
  kCriterionNeedsHints,
  kDigestAlgorithmMismatch,
  kEpochBehind,
  kSizeMismatch,
  kOffsetTooLarge,
  kContentMismatch,
  kTooManyUncommittedChunks,
  kTooManyUncommittedFiles,
  kTooManyEntries,
  kTooManyStreams,
  kNoWorker,
  kWorkerUnreachable,
  kFrontBehindFront,
  kTooManyCalls,
  kMemoryExhausted,
  kDraining,
  kOpenTimeout,
  kIdleTimeout,
  kIdleEvicted,
  kReadStalled,
  kIndexUnavailable,
  kIndexFull,
  kAuditUnavailable,
  kUnknownCaller,
  kNotYours,
  kQuotaExceeded,
  kInternal,
};
inline constexpr std::size_t kReasonCount = static_cast<std::size_t>(Reason::kInternal) + 1;

struct ReasonInfo {
  Reason reason;
  // In ErrorInfo.reason, as "CONTENT_MISMATCH".
  std::string_view name;
  absl::StatusCode code;
  // RetryInfo's delay; 0 where an unchanged retry makes no sense or is the client's own choice.
  std::chrono::milliseconds retry_delay;
};

const ReasonInfo& InfoOf(Reason reason);

// A status whose payloads are one google.rpc.ErrorInfo (and one RetryInfo if the reason has a retry
// delay).
absl::Status MakeError(
    Reason reason, std::string_view message,
    std::initializer_list<std::pair<std::string_view, std::string>> metadata = {});

// NOT_YOURS, in the same words for one who may not and for what is not there.
absl::Status NotYours();

// QUOTA_EXCEEDED, with a google.rpc.QuotaFailure: whose quota it is, and which. A RetryInfo says
// when to try again; without one, for a delay of 0, it is of no use until somebody makes room.
absl::Status QuotaExceeded(std::string_view subject, std::string_view description,
                           std::chrono::milliseconds retry_delay);

// QUOTA_EXCEEDED without a time to try again after: time alone mends nothing.
bool IsRepositoryFull(const absl::Status& status);

// The same status, of which ErrorInfo's metadata says what call it answers, as "request_id"; one
// that MakeError did not make stays as it is.
absl::Status WithRequestId(const absl::Status& status, std::string_view request_id);

// The reason's name, or an empty string for a status that MakeError did not make.
std::string ReasonNameOf(const absl::Status& status);

// The reason, or kInternal for a status that MakeError did not make.
Reason ReasonOf(const absl::Status& status);

// The same of what EncodeStatusDetails has encoded, here or elsewhere.
std::string ReasonNameIn(std::string_view encoded_details);

// `status` itself if it carries a reason; else the error for what an index answered: its code says
// which reason that is.
absl::Status FromIndexStatus(const absl::Status& status);

// The serialized google.rpc.Status for the trailer "grpc-status-details-bin". A status without a
// reason becomes INTERNAL.
std::string EncodeStatusDetails(const absl::Status& status);

}  // namespace kerf
