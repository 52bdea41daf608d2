#include "client/cpp/retry.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/limits.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "google/rpc/error_details.pb.h"

namespace kerf::client {
namespace {

constexpr std::string_view kErrorInfoType = "type.googleapis.com/google.rpc.ErrorInfo";
constexpr std::string_view kRetryInfoType = "type.googleapis.com/google.rpc.RetryInfo";
constexpr std::string_view kDomain = "kerf";

// A server may ask for more than the client's longest wait, but not for ever.
constexpr auto kLongestAskedWait =
    std::chrono::duration_cast<std::chrono::seconds>(limits::kLongestAskedWait);

// Not as types of messages are named, which servers send (FromGrpc).
constexpr char kTlsTroubleType[] = "kerf/tls-trouble";
constexpr char kGivenUpType[] = "kerf/given-up";
constexpr char kReasonType[] = "kerf/reason";

constexpr std::string_view kQuotaExceeded = "QUOTA_EXCEEDED";
constexpr std::string_view kIndexUnavailable = "INDEX_UNAVAILABLE";
constexpr std::string_view kMemoryExhausted = "MEMORY_EXHAUSTED";
constexpr std::string_view kTooManyCalls = "TOO_MANY_CALLS";
constexpr std::string_view kDraining = "DRAINING";
constexpr std::string_view kIdleTimeout = "IDLE_TIMEOUT";
constexpr std::string_view kContentMismatch = "CONTENT_MISMATCH";
constexpr std::string_view kNoWorker = "NO_WORKER";
constexpr std::string_view kWorkerUnreachable = "WORKER_UNREACHABLE";
constexpr std::string_view kRetriedReasons[] = {
    "AUDIT_UNAVAILABLE", kDraining, "IDLE_EVICTED", kIdleTimeout, kIndexUnavailable,
    kMemoryExhausted, kNoWorker, "OPEN_TIMEOUT", kQuotaExceeded, "READ_STALLED", "TOO_MANY_STREAMS",
    kTooManyCalls, kWorkerUnreachable,
    // What was answered is committed, or told to the index, and the next stream is sent the rest.
    "TOO_MANY_UNCOMMITTED_CHUNKS", "TOO_MANY_UNCOMMITTED_FILES"};
constexpr std::string_view kNoRoomReasons[] = {kMemoryExhausted, kQuotaExceeded, kTooManyCalls};
constexpr std::string_view kAwayReasons[] = {kDraining, kNoWorker, kWorkerUnreachable};
constexpr std::string_view kWorkersFaults[] = {"AUDIT_UNAVAILABLE", kIndexUnavailable,
                                               kWorkerUnreachable};
// The first by one who knows that what he sends again is what he has read.
constexpr std::string_view kRetriedOnceReasons[] = {kContentMismatch, "INTERNAL"};

template <typename Detail>
std::optional<Detail> DetailOf(const absl::Status& status, std::string_view type) {
  const auto payload = status.GetPayload(ToAbsl(type));
  Detail detail;
  if (!payload.has_value() || !detail.ParseFromString(std::string(*payload))) return std::nullopt;
  return detail;
}

bool IsOf(std::string_view text, std::span<const std::string_view> list) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

}  // namespace

std::chrono::milliseconds AskedWaitOf(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::RetryInfo>(status, kRetryInfoType);
  if (!info.has_value()) return {};
  const std::int64_t seconds =
      std::clamp<std::int64_t>(info->retry_delay().seconds(), 0, kLongestAskedWait.count());
  const std::int64_t nanoseconds = std::clamp(info->retry_delay().nanos(), 0, 999'999'999);
  return std::chrono::milliseconds(seconds * 1000 + nanoseconds / 1'000'000);
}

std::string ReasonOfLoss(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status, kErrorInfoType);
  if (!info.has_value() || info->domain() != kDomain) return "";
  return info->reason();
}

absl::Status OfCall(const absl::Status& status, const absl::Status& call) {
  absl::Status result = WithRequestId(status, RequestIdOf(call));
  const std::string reason = ReasonOfCall(call);
  if (!reason.empty() && ReasonOfCall(result).empty()) {
    result.SetPayload(kReasonType, absl::Cord(reason));
  }
  return result;
}

std::string ReasonOfCall(const absl::Status& status) {
  const auto told_on = status.GetPayload(kReasonType);
  return told_on.has_value() ? std::string(*told_on) : ReasonOfLoss(status);
}

bool IsQuotaExceeded(const absl::Status& status) { return ReasonOfLoss(status) == kQuotaExceeded; }

bool HasNoRoomNow(const absl::Status& status) {
  return LossOf(status) == Loss::kRetry && IsOf(ReasonOfLoss(status), kNoRoomReasons);
}

bool IsAwayNow(const absl::Status& status) { return IsOf(ReasonOfLoss(status), kAwayReasons); }

bool IsOwnSilence(const absl::Status& status) { return ReasonOfLoss(status) == kIdleTimeout; }

bool IsContentMismatch(const absl::Status& status) {
  return ReasonOfLoss(status) == kContentMismatch;
}

bool IsIndexUnavailable(const absl::Status& status) {
  return ReasonOfLoss(status) == kIndexUnavailable || absl::IsDeadlineExceeded(status);
}

bool IsWorkersFault(const absl::Status& status) {
  return IsOf(ReasonOfLoss(status), kWorkersFaults);
}

std::string WorkerOfLoss(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status, kErrorInfoType);
  if (!info.has_value() || info->domain() != kDomain) return "";
  const auto found = info->metadata().find("worker");
  return found == info->metadata().end() ? "" : found->second;
}

std::optional<std::uint64_t> FileNumberOfLoss(const absl::Status& status) {
  const auto info = DetailOf<google::rpc::ErrorInfo>(status, kErrorInfoType);
  if (!info.has_value() || info->domain() != kDomain) return std::nullopt;
  const auto found = info->metadata().find("file_number");
  std::uint64_t number = 0;
  if (found == info->metadata().end() || !absl::SimpleAtoi(found->second, &number)) {
    return std::nullopt;
  }
  return number;
}

absl::Status TlsTrouble(std::string_view why) {
  absl::Status status = absl::UnauthenticatedError(ToAbsl(why));
  status.SetPayload(kTlsTroubleType, absl::Cord());
  return status;
}

bool IsTlsTrouble(const absl::Status& status) {
  return status.GetPayload(kTlsTroubleType).has_value();
}

Loss LossOf(const absl::Status& status) {
  if (IsTlsTrouble(status)) return Loss::kRetryBriefly;
  const std::string reason = ReasonOfLoss(status);
  if (!reason.empty()) {
    // A quota that time alone gives nothing back of.
    if (reason == kQuotaExceeded && AskedWaitOf(status).count() == 0) return Loss::kFinal;
    if (IsOf(reason, kRetriedReasons)) return Loss::kRetry;
    return IsOf(reason, kRetriedOnceReasons) ? Loss::kRetryOnce : Loss::kFinal;
  }
  // gRPC's own: kerfd says none of these without a reason, and each language words them
  // differently.
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kCancelled:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
      return IsWrongAnswer(status) ? Loss::kFinal : Loss::kRetry;
    default:
      return Loss::kFinal;
  }
}

Loss LossOfRepeatable(const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status) && ReasonOfLoss(status).empty()) return Loss::kRetry;
  return LossOf(status);
}

std::chrono::milliseconds RetryPlan::TriedFor(TimePoint now) const {
  if (tries_ == 0) return {};
  return std::chrono::duration_cast<std::chrono::milliseconds>(now - first_loss_);
}

std::optional<std::chrono::milliseconds> RetryPlan::WaitAfter(Loss loss,
                                                              std::chrono::milliseconds asked,
                                                              TimePoint now) {
  if (loss == Loss::kFinal || limits_.time.count() <= 0) return std::nullopt;
  if (loss == Loss::kRetryOnce && ++once_count_ > 1) return std::nullopt;
  if (tries_ == 0) first_loss_ = now;
  if (tries_ >= limits_.tries) return std::nullopt;
  const std::chrono::milliseconds time =
      loss == Loss::kRetryBriefly ? std::min(limits_.time, limits_.brief_time) : limits_.time;
  const std::chrono::milliseconds left = time - TriedFor(now);
  if (left.count() <= 0) return std::nullopt;
  ++tries_;
  // No shift beyond what the longest wait can need.
  std::chrono::milliseconds wait =
      limits_.first_wait * (std::int64_t{1} << std::min(tries_ - 1, 20));
  wait = std::min(wait, limits_.longest_wait);
  wait -=
      std::chrono::milliseconds(random_.Below(static_cast<std::uint64_t>(wait.count()) / 2 + 1));
  // The last try is made when the time is over, not before; what the server asks for comes first.
  return std::max(std::min(wait, left), asked);
}

absl::Status GaveUp(const RetryPlan& plan, std::span<const std::string> servers,
                    const absl::Status& loss, RetryPlan::TimePoint now) {
  const double seconds = std::chrono::duration<double>(plan.TriedFor(now)).count();
  const std::string text =
      Cat("gave up after ", plan.tries(), " tries in ", absl::StrFormat("%.1f s", seconds),
          " to go on at ", absl::StrJoin(servers, ", "),
          "; the last one ended with: ", MessageOf(loss));
  const bool is_kept = absl::IsResourceExhausted(loss) || absl::IsDeadlineExceeded(loss);
  const absl::StatusCode code = is_kept ? loss.code() : absl::StatusCode::kUnavailable;
  absl::Status status(code, ToAbsl(text));
  status.SetPayload(kGivenUpType, absl::Cord());
  return OfCall(status, loss);
}

bool HasGivenUp(const absl::Status& status) { return status.GetPayload(kGivenUpType).has_value(); }

}  // namespace kerf::client
