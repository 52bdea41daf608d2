#include "client/cpp/patient_call.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "base/limits.h"
#include "base/request_id.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"

namespace kerf::client {
namespace {

// That there is no room is told from here on: most calls find some by their second try, and a
// collection makes thousands of calls.
constexpr int kToldFromTry = 3;
constexpr std::chrono::milliseconds kGonePoll{100};

}  // namespace

absl::Status PatientCalls::CallOnce(const std::function<grpc::Status(grpc::ClientContext&)>& ask) {
  grpc::ClientContext context;
  const std::string request_id = NewRequestId();
  context.AddMetadata(kRequestIdMetadata, request_id);
  context.set_deadline(std::chrono::system_clock::now() + limits::kIndexCallDeadline);
  std::optional<CallCancellation::Scope> scope;
  if (options_.cancellation != nullptr) scope.emplace(*options_.cancellation, context);
  absl::Status status = FromGrpc(ask(context));
  // Cancelled is what the user does, and an exit code of his. A server that stops in the middle of
  // a call says so, too, in gRPC's words and without a reason.
  const bool is_ours = options_.cancellation != nullptr && options_.cancellation->cancelled();
  if (absl::IsCancelled(status) && !is_ours) {
    status = absl::UnavailableError("the server ended the call: it stops, or its connection broke");
  }
  is_met_ = is_met_ || status.ok() || !ReasonOfLoss(status).empty();
  return WithRequestId(status, request_id);
}

bool PatientCalls::IsAway(const absl::Status& status) const {
  if (IsAwayNow(status)) return true;
  return is_met_ && ReasonOfLoss(status).empty() && LossOf(status) == Loss::kRetry;
}

std::optional<std::chrono::milliseconds> PatientCalls::WaitAfter(
    const absl::Status& status, RetryPlan& plan, std::chrono::steady_clock::time_point now) {
  const std::chrono::milliseconds asked = AskedWaitOf(status);
  if (HasNoRoomNow(status) && IsQuotaExceeded(status)) return asked;
  if (!HasNoRoomNow(status) && !IsAway(status)) return std::nullopt;
  return plan.WaitAfter(Loss::kRetry, asked, now);
}

bool PatientCalls::WaitOut(std::chrono::milliseconds wait) const {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (!IsGone()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const auto slice = options_.is_gone ? std::min(left, kGonePoll) : left;
    if (options_.cancellation == nullptr) {
      std::this_thread::sleep_for(slice);
    } else if (options_.cancellation->Wait(slice)) {
      return true;
    }
  }
  return false;
}

absl::Status PatientCalls::Call(const std::function<grpc::Status(grpc::ClientContext&)>& ask) {
  const auto began = std::chrono::steady_clock::now();
  was_perhaps_done_before_ = false;
  RetryPlan plan(RetryLimits{.time = options_.patience}, std::random_device()());
  int unasked_count = options_.others_count;
  for (int tries = 1;; ++tries) {
    absl::Status status = CallOnce(ask);
    if (status.ok()) return status;
    const auto now = std::chrono::steady_clock::now();
    const bool has_index_elsewhere = IsIndexUnavailable(status) && unasked_count-- > 0;
    const std::optional<std::chrono::milliseconds> wait =
        has_index_elsewhere ? plan.WaitAfter(Loss::kRetry, AskedWaitOf(status), now)
                            : WaitAfter(status, plan, now);
    if (!wait.has_value()) return status;
    // After a wait it would have been asked again: what the server said is not why that ends.
    if (options_.cancellation != nullptr && options_.cancellation->cancelled()) {
      return absl::IsCancelled(status)
                 ? status
                 : absl::CancelledError("cancelled before it was asked again");
    }
    if (now + *wait - began > options_.patience || IsGone()) return status;
    // Whoever has no room has not begun.
    was_perhaps_done_before_ = was_perhaps_done_before_ || !HasNoRoomNow(status);
    if (options_.on_wait && (tries >= kToldFromTry || !HasNoRoomNow(status))) {
      options_.on_wait({status, tries, *wait});
    }
    if (WaitOut(*wait)) return absl::CancelledError("cancelled while it waited for its turn");
    if (IsGone()) return status;
    if (options_.others_count > 0 && !HasNoRoomNow(status)) options_.go_elsewhere();
  }
}

}  // namespace kerf::client
