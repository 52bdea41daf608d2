#include "client/cli/exit_code.h"

namespace kerf::agent {

ExitCode ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return ExitCode::kOk;
    case absl::StatusCode::kUnauthenticated:
      return ExitCode::kAuthentication;
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
