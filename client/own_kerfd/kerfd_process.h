// The process of a kerfd that kerf starts.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kerf::agent {

// What it has of kerf's open files, by these numbers, and nothing else.
inline constexpr int kLockInKerfd = 3;
inline constexpr int kFolderInKerfd = 4;

struct KerfdStart {
  // The path of the program, and what it gets behind its name.
  std::string program;
  std::vector<std::string> arguments;
  // Stays the caller's.
  int lock = -1;
  int folder = -1;
  int log = -1;
};

// Starts it in a session of its own, so that what a terminal tells kerf does not reach it, with "/"
// for its folder and without settings from the environment. Unavailable: the program cannot be run;
// ResourceExhausted: the system has no process or file for it. Thread-safe.
absl::StatusOr<pid_t> StartKerfd(const KerfdStart& start);

// How a process that this one has started has ended: "exit code 1", "signal 9". Nothing: it runs.
// To be asked no more once it has answered.
std::optional<std::string> EndOf(pid_t process);

// What StartKerfd leaves of the environment, "NAME=value": all but what would be settings of kerfd,
// or is meant for kerf's process alone by whoever has started it.
std::vector<std::string> EnvironmentOfKerfd(const char* const* environment);

}  // namespace kerf::agent
