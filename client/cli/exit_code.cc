#include "client/cli/exit_code.h"

#include "client/cpp/failed_call.h"

namespace kerf::agent {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kAuthentication;
    case absl::StatusCode::kPermissionDenied:
      // By a server; without a call it is a file that may not be read or written.
      return client::RequestIdOf(status).empty() ? ExitCode::kFailure : ExitCode::kAuthentication;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return ExitCode::kUnavailable;
    case absl::StatusCode::kDataLoss:
      return ExitCode::kIntegrity;
    case absl::StatusCode::kResourceExhausted:
      return ExitCode::kQuota;
    case absl::StatusCode::kCancelled:
      return ExitCode::kInterrupted;
    default:
      return ExitCode::kFailure;
  }
}

}  // namespace kerf::agent
