// How `kerf` ends. The numbers are an interface: scripts read them.
#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace kerf::agent {

enum class ExitCode : int {
  kOk = 0,
  kFailure = 1,
  kUsage = 2,
  // The run went through, but some entries could not be read or written.
  kPartial = 3,
  // A server refused who asks.
  kAuthentication = 4,
  // The server cannot be reached or does not answer; try again later. Or a program or device is not
  // there.
  kUnavailable = 5,
  // Stored data is damaged.
  kIntegrity = 6,
  // Disk full, or a quota; or a server has no room for more.
  kQuota = 7,
  // SIGINT, or whatever else has cancelled it.
  kInterrupted = 130,
  // SIGTERM; RunProgram says kInterrupted, and ProgramMain by which signal.
  kTerminated = 143,
};

struct NamedExitCode {
  ExitCode code;
  // As in docs/exit_codes.md.
  std::string_view name;
};
inline constexpr NamedExitCode kExitCodes[] = {
    {ExitCode::kOk, "ok"},
    {ExitCode::kFailure, "failure"},
    {ExitCode::kUsage, "usage"},
    {ExitCode::kPartial, "partial"},
    {ExitCode::kAuthentication, "not authorised"},
    {ExitCode::kUnavailable, "unavailable"},
    {ExitCode::kIntegrity, "integrity"},
    {ExitCode::kQuota, "no room"},
    {ExitCode::kInterrupted, "interrupted"},
    {ExitCode::kTerminated, "terminated"},
};

// For --help.
inline constexpr char kExitCodeHelp[] =
    "Exit codes: 0 ok, 1 failure, 2 usage, 3 partial (some entries failed), 4 not authorised,\n"
    "5 unavailable (no server), 6 integrity (stored data is damaged), 7 no room "
    "(disk\n"
    "full or quota), 130 interrupted (SIGINT), 143 terminated (SIGTERM); docs/exit_codes.md";

ExitCode ExitCodeOf(const absl::Status& status);

}  // namespace kerf::agent
