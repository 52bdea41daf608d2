// What is said before a server is tried again.
#pragma once

#include <chrono>
#include <string_view>

#include "base/limits.h"
#include "client/agent/verbs/interrupted_calls.h"
#include "client/cli/context.h"
#include "client/cpp/patient_call.h"
#include "client/cpp/resuming_upload.h"
#include "client/cpp/server_address.h"

namespace kerf::agent {

// `what` has happened: a line for people, an object for programs. Thread-safe.
void TellOfRetry(Reporter& reporter, std::string_view what,
                 const client::ResumingUpload::Lost& lost);

// For the calls that a verb makes of `server`: an interrupt ends them, each is tried again for
// `patience`, and what is waited for is said. `context` and `calls` outlive them.
client::CallOptions CallOptionsOf(Context& context, InterruptedCalls& calls,
                                  const client::ServerAddress& server,
                                  std::chrono::milliseconds patience = limits::kRetryFor);

}  // namespace kerf::agent
