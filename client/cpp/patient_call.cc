#include "client/cpp/patient_call.h"

#include <chrono>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include "base/limits.h"
#include "base/request_id.h"
#include "client/cpp/channel.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"

namespace kerf::client {
namespace {

absl::Status CallOnce(CallCancellation* cancellation,
                      const std::function<grpc::Status(grpc::ClientContext&)>& ask) {
  grpc::ClientContext context;
  const std::string request_id = NewRequestId();
  context.AddMetadata(kRequestIdMetadata, request_id);
  context.set_deadline(std::chrono::system_clock::now() + limits::kIndexCallDeadline);
  std::optional<CallCancellation::Scope> scope;
  if (cancellation != nullptr) scope.emplace(*cancellation, context);
  return WithRequestId(FromGrpc(ask(context)), request_id);
}

}  // namespace

absl::Status CallPatiently(CallCancellation* cancellation, std::chrono::milliseconds patience,
                           const std::function<grpc::Status(grpc::ClientContext&)>& ask) {
  const auto began = std::chrono::steady_clock::now();
  std::optional<RetryPlan> plan;
  while (true) {
    absl::Status status = CallOnce(cancellation, ask);
    if (!HasNoRoomNow(status)) return status;
    const auto now = std::chrono::steady_clock::now();
    std::optional<std::chrono::milliseconds> wait = AskedWaitOf(status);
    if (!IsQuotaExceeded(status)) {
      if (!plan.has_value()) plan.emplace(RetryLimits{.time = patience}, std::random_device()());
      wait = plan->WaitAfter(Loss::kRetry, *wait, now);
    }
    if (!wait.has_value() || now + *wait - began > patience) return status;
    if (cancellation == nullptr) {
      std::this_thread::sleep_for(*wait);
    } else if (cancellation->Wait(*wait)) {
      return absl::CancelledError("cancelled while it waited for its turn");
    }
  }
}

}  // namespace kerf::client
