// How `kerf` ends. The numbers are an interface: scripts read them.
#pragma once

#include "absl/status/status.h"

namespace kerf::agent {

enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  // The run went through, but some entries could not be read or written.
  kPartial = 3,
  kAuthentication = 4,
  // The server cannot be reached or is full; try again later.
  kUnavailable = 5,
  // Stored data is damaged.
  kIntegrity = 6,
  // Disk full, or a quota.
  kQuota = 7,
  // SIGINT, or whatever else has cancelled it.
  kInterrupted = 130,
  // SIGTERM; RunProgram says kInterrupted, and ProgramMain by which signal.
  kTerminated = 143,
};

// For --help.
inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 ok, 1 failure, 2 usage, 3 partial (some entries failed), 4 not authorised,\n"
    "5 server unavailable, 6 integrity (stored data is damaged), 7 disk full or quota, 130 "
    "interrupted\n(SIGINT), 143 terminated (SIGTERM); docs/exit_codes.md tells which verb ends "
    "with "
    "which";

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace kerf::agent
