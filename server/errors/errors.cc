#include "server/errors/errors.h"

#include <array>

#include "absl/strings/cord.h"
#include "base/check.h"
#include "base/limits.h"
#include "base/strings.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace kerf {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kErrorInfoType = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr std::string_view kRetryInfoType = "type.googleapis.com/google.rpc.RetryInfo";
constexpr std::string_view kQuotaFailureType = "type.googleapis.com/google.rpc.QuotaFailure";
constexpr std::string_view kDomain = "kerf";

constexpr milliseconds kNoRetry{0};
using limits::kRetryLater;
using limits::kRetrySoon;

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
constexpr auto kExhausted = absl::StatusCode::kResourceExhausted;
constexpr auto kDeadline = absl::StatusCode::kDeadlineExceeded;

constexpr std::array kReasons = {
    ReasonInfo{Reason::kMalformedMessage, "MALFORMED_MESSAGE", kInvalid, kNoRetry},
    ReasonInfo{Reason::kMessageTooLarge, "MESSAGE_TOO_LARGE", kExhausted, kNoRetry},
    ReasonInfo{Reason::kFrameOrder, "FRAME_ORDER", kInvalid, kNoRetry},
    ReasonInfo{Reason::kBadField, "BAD_FIELD", kInvalid, kNoRetry},
    ReasonInfo{Reason::kUnknownDigest, "UNKNOWN_DIGEST", kInvalid, kNoRetry},
    ReasonInfo{Reason::kUnfinishedFile, "UNFINISHED_FILE", kInvalid, kNoRetry},
    ReasonInfo{Reason::kProfileTooLarge, "PROFILE_TOO_LARGE", absl::StatusCode::kFailedPrecondition,
               kNoRetry},
    ReasonInfo{Reason::kCriterionNeedsHints, "CRITERION_NEEDS_HINTS",
               absl::StatusCode::kFailedPrecondition, kNoRetry},
    ReasonInfo{Reason::kDigestAlgorithmMismatch, "DIGEST_ALGORITHM_MISMATCH",
               absl::StatusCode::kFailedPrecondition, kNoRetry},
    ReasonInfo{Reason::kEpochBehind, "EPOCH_BEHIND", absl::StatusCode::kFailedPrecondition,
               kNoRetry},
    ReasonInfo{Reason::kSizeMismatch, "SIZE_MISMATCH", absl::StatusCode::kOutOfRange, kNoRetry},
    ReasonInfo{Reason::kOffsetTooLarge, "OFFSET_TOO_LARGE", absl::StatusCode::kOutOfRange,
               kNoRetry},
    ReasonInfo{Reason::kContentMismatch, "CONTENT_MISMATCH", absl::StatusCode::kDataLoss, kNoRetry},
    ReasonInfo{Reason::kTooManyUncommittedChunks, "TOO_MANY_UNCOMMITTED_CHUNKS", kExhausted,
               kNoRetry},
    ReasonInfo{Reason::kTooManyUncommittedFiles, "TOO_MANY_UNCOMMITTED_FILES", kExhausted,
               kNoRetry},
    ReasonInfo{Reason::kTooManyEntries, "TOO_MANY_ENTRIES", kExhausted, kNoRetry},
    ReasonInfo{Reason::kTooManyStreams, "TOO_MANY_STREAMS", kExhausted, kRetryLater},
    ReasonInfo{Reason::kNoWorker, "NO_WORKER", absl::StatusCode::kUnavailable, kRetrySoon},
    ReasonInfo{Reason::kWorkerUnreachable, "WORKER_UNREACHABLE", absl::StatusCode::kUnavailable,
               kRetrySoon},
    ReasonInfo{Reason::kFrontBehindFront, "FRONT_BEHIND_FRONT",
               absl::StatusCode::kFailedPrecondition, kNoRetry},
    ReasonInfo{Reason::kTooManyCalls, "TOO_MANY_CALLS", kExhausted, kRetrySoon},
    ReasonInfo{Reason::kMemoryExhausted, "MEMORY_EXHAUSTED", kExhausted, kRetryLater},
    ReasonInfo{Reason::kDraining, "DRAINING", absl::StatusCode::kUnavailable, kRetrySoon},
    ReasonInfo{Reason::kOpenTimeout, "OPEN_TIMEOUT", kDeadline, kNoRetry},
    ReasonInfo{Reason::kIdleTimeout, "IDLE_TIMEOUT", kDeadline, kNoRetry},
    ReasonInfo{Reason::kIdleEvicted, "IDLE_EVICTED", absl::StatusCode::kUnavailable, kRetrySoon},
    ReasonInfo{Reason::kReadStalled, "READ_STALLED", kDeadline, kNoRetry},
    ReasonInfo{Reason::kIndexUnavailable, "INDEX_UNAVAILABLE", absl::StatusCode::kUnavailable,
               kRetrySoon},
    ReasonInfo{Reason::kIndexFull, "INDEX_FULL", kExhausted, kRetryLater},
    ReasonInfo{Reason::kAuditUnavailable, "AUDIT_UNAVAILABLE", absl::StatusCode::kUnavailable,
               kRetrySoon},
    ReasonInfo{Reason::kUnknownCaller, "UNKNOWN_CALLER", absl::StatusCode::kUnauthenticated,
               kNoRetry},
    ReasonInfo{Reason::kNotYours, "NOT_YOURS", absl::StatusCode::kPermissionDenied, kNoRetry},
    ReasonInfo{Reason::kQuotaExceeded, "QUOTA_EXCEEDED", kExhausted, kRetryLater},
    ReasonInfo{Reason::kInternal, "INTERNAL", absl::StatusCode::kInternal, kNoRetry},
};
static_assert(kReasons.size() == kReasonCount);

void SetRetryDelay(milliseconds delay, absl::Status& status) {
  if (delay == kNoRetry) {
    status.ErasePayload(ToAbsl(kRetryInfoType));
    return;
  }
  google::rpc::RetryInfo retry;
  retry.mutable_retry_delay()->set_seconds(delay.count() / 1000);
  retry.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(delay.count() % 1000) *
                                         1'000'000);
  status.SetPayload(ToAbsl(kRetryInfoType), absl::Cord(retry.SerializeAsString()));
}

}  // namespace

const ReasonInfo& InfoOf(Reason reason) {
  const auto index = static_cast<std::size_t>(reason);
  KERF_CHECK(index < kReasons.size());
  KERF_CHECK(kReasons[index].reason == reason);
  return kReasons[index];
}

absl::Status MakeError(Reason reason, std::string_view message,
                       std::initializer_list<std::pair<std::string_view, std::string>> metadata) {
  const ReasonInfo& info = InfoOf(reason);
  absl::Status status(info.code, ToAbsl(message));
  google::rpc::ErrorInfo error;
  error.set_reason(std::string(info.name));
  error.set_domain(std::string(kDomain));
  for (const auto& [key, value] : metadata) (*error.mutable_metadata())[std::string(key)] = value;
  status.SetPayload(ToAbsl(kErrorInfoType), absl::Cord(error.SerializeAsString()));
  SetRetryDelay(info.retry_delay, status);
  return status;
}

absl::Status NotYours() {
  return MakeError(Reason::kNotYours,
                   "the caller may not do this here, or there is no such repository");
}

absl::Status QuotaExceeded(std::string_view subject, std::string_view description,
                           milliseconds retry_delay) {
  absl::Status status =
      MakeError(Reason::kQuotaExceeded, Cat("the quota of ", subject, " is used up: ", description),
                {{"subject", std::string(subject)}});
  google::rpc::QuotaFailure failure;
  google::rpc::QuotaFailure::Violation& violation = *failure.add_violations();
  violation.set_subject(std::string(subject));
  violation.set_description(std::string(description));
  status.SetPayload(ToAbsl(kQuotaFailureType), absl::Cord(failure.SerializeAsString()));
  SetRetryDelay(retry_delay, status);
  return status;
}

bool IsRepositoryFull(const absl::Status& status) {
  return ReasonOf(status) == Reason::kQuotaExceeded &&
         !status.GetPayload(ToAbsl(kRetryInfoType)).has_value();
}

absl::Status WithRequestId(const absl::Status& status, std::string_view request_id) {
  const auto payload = status.GetPayload(ToAbsl(kErrorInfoType));
  google::rpc::ErrorInfo error;
  if (!payload.has_value() || !error.ParseFromString(std::string(*payload))) return status;
  (*error.mutable_metadata())["request_id"] = std::string(request_id);
  absl::Status marked = status;
  marked.SetPayload(ToAbsl(kErrorInfoType), absl::Cord(error.SerializeAsString()));
  return marked;
}

std::string ReasonNameOf(const absl::Status& status) {
  const auto payload = status.GetPayload(ToAbsl(kErrorInfoType));
  google::rpc::ErrorInfo error;
  if (!payload.has_value() || !error.ParseFromString(std::string(*payload))) return "";
  return error.reason();
}

Reason ReasonOf(const absl::Status& status) {
  const std::string name = ReasonNameOf(status);
  for (const ReasonInfo& info : kReasons) {
    if (info.name == name) return info.reason;
  }
  return Reason::kInternal;
}

std::string ReasonNameIn(std::string_view encoded_details) {
  google::rpc::Status encoded;
  google::rpc::ErrorInfo error;
  if (!encoded.ParseFromString(std::string(encoded_details))) return "";
  for (const auto& detail : encoded.details()) {
    if (detail.type_url() == kErrorInfoType && error.ParseFromString(detail.value())) {
      return error.reason();
    }
  }
  return "";
}

absl::Status FromIndexStatus(const absl::Status& status) {
  if (status.ok() || !ReasonNameOf(status).empty()) return status;
  Reason reason = Reason::kInternal;
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    // Its epoch is said with a reason (rules.h): the index, as a later kerfd has made it, is not to
    // be used by this one.
    case absl::StatusCode::kFailedPrecondition:
      reason = Reason::kIndexUnavailable;
      break;
    case absl::StatusCode::kResourceExhausted:
      reason = Reason::kIndexFull;
      break;
    case absl::StatusCode::kInvalidArgument:
      reason = Reason::kBadField;
      break;
    default:
      break;
  }
  return MakeError(reason, Cat("the index: ", MessageOf(status)));
}

std::string EncodeStatusDetails(const absl::Status& status) {
  if (!status.ok() && ReasonNameOf(status).empty()) {
    return EncodeStatusDetails(MakeError(Reason::kInternal, MessageOf(status)));
  }
  google::rpc::Status encoded;
  encoded.set_code(static_cast<std::int32_t>(status.code()));
  encoded.set_message(std::string(MessageOf(status)));
  for (const std::string_view type : {kErrorInfoType, kRetryInfoType, kQuotaFailureType}) {
    const auto payload = status.GetPayload(ToAbsl(type));
    if (!payload.has_value()) continue;
    auto* detail = encoded.add_details();
    detail->set_type_url(std::string(type));
    detail->set_value(std::string(*payload));
  }
  return encoded.SerializeAsString();
}

}  // namespace kerf
