#include "client/agent/verbs/retry_notice.h"

#include <string>

#include "absl/strings/str_format.h"
#include "base/status.h"
#include "base/strings.h"
#include "client/cpp/failed_call.h"
#include "client/cpp/retry.h"

namespace kerf::agent {

void TellOfRetry(Reporter& reporter, std::string_view what,
                 const client::ResumingUpload::Lost& lost) {
  const double wait_seconds = std::chrono::duration<double>(lost.wait).count();
  if (reporter.json()) {
    reporter.Json("retry", {{"server", lost.server},
                            {"worker", lost.worker},
                            {"code", StatusCodeName(lost.status.code())},
                            {"message", std::string(MessageOf(lost.status))},
                            {"reason", client::ReasonOfCall(lost.status)},
                            {"request_id", client::RequestIdOf(lost.status)},
                            {"tries", lost.tries},
                            {"wait_seconds", wait_seconds}});
    return;
  }
  const std::string whose =
      lost.worker.empty() ? Cat("server ", lost.server) : Cat("worker ", lost.worker);
  const absl::Status annotated = Annotate(
      lost.status,
      Cat(what, ", trying again in ", absl::StrFormat("%.1f s", wait_seconds), " (", whose, ")"));
  reporter.Error(client::OfCall(annotated, lost.status));
}

client::CallOptions CallOptionsOf(Context& context, InterruptedCalls& calls,
                                  const client::ServerAddress& server,
                                  std::chrono::milliseconds patience) {
  client::CallOptions options;
  options.cancellation = &calls.cancellation();
  options.patience = patience;
  options.on_wait = [&reporter = context.reporter,
                     address = server.text](const client::CallWait& wait) {
    const std::string_view what =
        client::HasNoRoomNow(wait.why) ? "the server has no room for a call" : "the server is away";
    TellOfRetry(reporter, what,
                {address, client::WorkerOfLoss(wait.why), wait.why, wait.tries, wait.wait});
  };
  // It has answered before it is asked anything, and is started anew where it is lost.
  options.is_met = context.own_kerfd != nullptr;
  if (const OwnKerfd* const own = context.own_kerfd.get(); own != nullptr) {
    options.is_gone = [own] { return !own->GivenUp().ok(); };
  }
  return options;
}

}  // namespace kerf::agent
